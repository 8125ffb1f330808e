package guest

// systemdTexts are the files that a root file system needs to boot, besides the unpacked packages of systemd and D-Bus. They are the
// files that the installation of these packages would write, and the unit that runs the guest's commands.
var systemdTexts = map[string]string{
	"/etc/machine-id":                "c0ffee00c0ffee00c0ffee00c0ffee00\n", // otherwise systemd sets up a new machine
	"/etc/hostname":                  "guest\n",
	"/etc/passwd":                    "root:x:0:0::/root:/bin/bash\nmessagebus:x:101:101::/nonexistent:/usr/sbin/nologin\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n",
	"/etc/group":                     "root:x:0:\nmessagebus:x:101:\nnogroup:x:65534:\n",
	"/etc/systemd/system/keep.slice": "[Slice]\nCPUQuota=100%\n", // for the same reason as permanentGroup of init
	"/etc/systemd/system/" + systemdUnit: `[Unit]
Wants=dbus.socket user.slice keep.slice
After=basic.target keep.slice

[Service]
ExecStart=/init
`,
}

const systemdUnit = "candor-guest.service"
