package web

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	pagecdp "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/apitest"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// A browser is a tab of a real Chromium.
type browser struct {
	testing.TB
	ctx context.Context
}

// startBrowser starts Chromium with an empty tab. It skips the test without Chromium.
func startBrowser(t testing.TB) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	if program == "" {
		t.Skip("no chromium: scripts/test-deps.sh installs it")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.WindowSize(1280, 900))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's sandbox refuses root
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	return (&browser{t, allocator}).tab()
}

// in returns the same tab for a subtest.
func (b *browser) in(t testing.TB) *browser { return &browser{t, b.ctx} }

// tab opens a tab. The tab records errors and violations of the policy in the variable problems of the page.
func (b *browser) tab() *browser {
	b.Helper()
	ctx, closeTab := chromedp.NewContext(b.ctx)
	b.Cleanup(closeTab)
	const record = `window.problems = [];
		addEventListener('error', e => problems.push(e.message));
		addEventListener('unhandledrejection', e => problems.push(String(e.reason)));
		addEventListener('securitypolicyviolation', e => problems.push(e.violatedDirective + ' ' + e.blockedURI + ' ' + e.sample));
		window.alert = text => problems.push('alert ' + text);`
	tab := &browser{b.TB, ctx}
	tab.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, pagecdp.AddScriptToEvaluateOnNewDocument, pagecdp.AddScriptToEvaluateOnNewDocumentParams{Source: record})
		return err
	}))
	return tab
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.Fatal(err)
	}
}

// run runs JavaScript.
func (b *browser) run(script string) {
	b.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](script))
}

// eval evaluates a JavaScript expression with a string as its value.
func (b *browser) eval(expression string) string {
	b.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return text
}

// await waits until a JavaScript expression is true, for at most 20 s.
func (b *browser) await(expression string) {
	b.Helper()
	for deadline := time.Now().Add(20 * time.Second); b.eval("Boolean("+expression+")") != "true"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.picture("failed")
			b.Fatalf("not within 20 s: %s\n%s\nproblems: %s", expression, b.eval("document.body.innerText"), b.eval("problems"))
		}
	}
}

// want compares the value of a JavaScript expression.
func (b *browser) want(expression, want string) {
	b.Helper()
	if got := b.eval(expression); got != want {
		b.Errorf("%s: %q, want %q", expression, got, want)
	}
}

// dark sets the color scheme of the system.
func (b *browser) dark(isDark bool) {
	b.Helper()
	scheme := "light"
	if isDark {
		scheme = "dark"
	}
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	}))
}

// click clicks at a position in the map, after the pointer has moved there.
func (b *browser) click(x, y float64) {
	b.Helper()
	for _, by := range []struct {
		axis string
		to   *float64
	}{{"x", &x}, {"y", &y}} {
		at, err := strconv.ParseFloat(b.eval("document.querySelector('#canvas').getBoundingClientRect()."+by.axis), 64)
		if err != nil {
			b.Fatal(err)
		}
		*by.to += at
	}
	b.do(chromedp.MouseEvent(chromedp.MouseMoved, x, y))
	b.await("!document.querySelector('#tip').hidden")
	b.picture("tip")
	b.do(chromedp.MouseClickXY(x, y))
}

// picture writes a picture of the page to the directory CANDOR_PICTURES, if it is set.
func (b *browser) picture(name string) {
	b.Helper()
	dir := os.Getenv("CANDOR_PICTURES")
	if dir == "" {
		return
	}
	time.Sleep(200 * time.Millisecond) // the next frame
	data, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644)
	}
	if err != nil {
		b.Error(err)
	}
}

// A field is a server with 50 nodes, and its addresses.
type field struct {
	*listWatch
	mu        sync.Mutex
	addresses []string
}

// serveField starts the server of kubectl candor web, with 50 nodes of 16 and 64 CPUs.
func serveField(t testing.TB) *field {
	t.Helper()
	var reports []*v1alpha1.NodeCPU
	for i := range 50 {
		name := fmt.Sprintf("node-%d", i)
		switch {
		case i == 48: // an agent that has not reported
			reports = append(reports, &v1alpha1.NodeCPU{})
			reports[i].Name = name
		case i == 49:
			reports = append(reports, reportOn(t, "core:16 pu:1", cpuset.Of(0), name))
			reports[i].Status.Usable = "0-99"
		case i%5 == 4:
			reports = append(reports, reportOn(t, "pack:1 numa:1 l3:1 core:8 pu:2", cpuset.Of(0), name, 2500, 1500))
		default:
			limits := []hybrid.Milli{4000, 2500, 8000, 1500, 500, 3750}
			reports = append(reports, reportOn(t, "pack:2 numa:1 l3:2 core:8 pu:2", cpuset.Of(0, 1), name, limits[:1+i%6]...))
		}
		reports[i].Status.Reported.Time = time.Now().Add(-time.Duration(i*i*i) * time.Minute)
	}
	objects := pendingCluster(t, "sensitive")
	delete(objects, "/apis/candor.dev/v1alpha1/nodecpus")
	objects["/api/v1/pods"] = apitest.List(
		podOn("shop", "web-0", "node-1-0", "node-1"), podOn("shop", hostile[0], "node-1-1", "node-1"), podOn("spark", "\u202egnisrever", "node-3-0", "node-3"),
		podOn("spark", strings.Repeat("long-name-", 25)+"end", "node-3-1", "node-3"), objects["/api/v1/namespaces/shop/pods/late"].(object))
	f := &field{listWatch: newListWatch(t, objects, reports...)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Config: configOf(f.Server), Cluster: "production", Announce: func(oneTime string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.addresses = append(f.addresses, fmt.Sprintf("http://%s/#token=%s", l.Addr(), oneTime))
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return f
}

// newest returns the newest address.
func (f *field) newest() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.addresses[len(f.addresses)-1]
}

const (
	isLive = "document.querySelector('#state').textContent === 'Live'"
	// pixels counts the pixels of the map with a color of the style sheet.
	pixels = `(() => {
		const canvas = document.querySelector('#canvas'), data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
		const color = getComputedStyle(document.documentElement).getPropertyValue('--%s').trim().slice(1).match(/../g).map(part => parseInt(part, 16));
		let n = 0;
		for (let i = 0; i < data.length; i += 4) if (data[i] === color[0] && data[i + 1] === color[1] && data[i + 2] === color[2]) n++;
		return n;
	})()`
)

// TestBrowser: the page in a real browser shows 50 nodes and their changes, opens a node and a waiting pod, and shows hostile
// names as text.
func TestBrowser(t *testing.T) {
	b := startBrowser(t)
	f := serveField(t)
	first := f.newest()
	b.do(chromedp.Navigate(first))
	b.await(isLive)
	b.await("document.querySelector('#summary').textContent.startsWith('50 nodes, ')")
	b.want("location.hash", "") // the token is not left in the address
	b.want("document.querySelector('#cluster').textContent", "production")
	for _, use := range []string{"exclusive", "fractional", "shared", "reserved", "none"} {
		b.await(fmt.Sprintf(pixels, use) + " > 100")
	}
	b.picture("map")

	before := b.eval(fmt.Sprintf(pixels, "exclusive"))
	changed := reportOn(t, "pack:2 numa:1 l3:2 core:8 pu:2", cpuset.Of(0, 1), "node-0", 40000)
	changed.ResourceVersion = "2"
	started := time.Now()
	f.changes <- changed
	b.await(fmt.Sprintf(pixels, "exclusive") + " > " + before)
	if took := time.Since(started); took > 2*time.Second {
		t.Errorf("a change is seen after %v", took)
	}
	t.Run("node", func(t *testing.T) { testNode(b.in(t)) })
	t.Run("colors", func(t *testing.T) { testColors(b.in(t)) })
	t.Run("search", func(t *testing.T) { testSearch(b.in(t)) })
	t.Run("table", func(t *testing.T) { testTable(b.in(t)) })
	t.Run("login", func(t *testing.T) { testLogin(b.in(t), f, first) })
	b.want("problems", "")
}

// testNode opens nodes, by the address and by a click. A node has its drawing, with its own style sheet, and hostile names are
// texts.
func testNode(b *browser) {
	b.run("location.hash = 'node=node-1'")
	b.await("document.querySelector('.drawing')?.shadowRoot.querySelector('svg')")
	b.want("getComputedStyle(document.querySelector('.drawing').shadowRoot.querySelector('rect.bg')).fill", "rgb(255, 255, 255)")
	b.want("document.querySelector('h2').textContent", "node-1")
	b.want("document.activeElement.tagName", "H2")
	b.want("document.querySelectorAll('td')[1].textContent", "web-0")
	b.want("[...document.querySelectorAll('td')].some(c => c.textContent === "+strconv.Quote(hostile[0])+")", "true")
	b.want("document.images.length", "0")
	b.picture("node")
	b.run("location.hash = 'node=node-3'")
	b.await("document.querySelector('h2').textContent === 'node-3' && document.querySelector('td')")
	b.want("document.documentElement.scrollWidth <= innerWidth", "true") // the long name is broken
	b.want("problems", "")                                               // the policy permits the style sheet of the drawing
	b.want("document.querySelectorAll('td')[1].firstElementChild.tagName", "BDI")
	b.do(chromedp.KeyEvent("\u001b")) // Escape
	b.await("!document.querySelector('#all').hidden")
	b.run("location.hash = 'node=node-49'")
	b.await("document.querySelector('.error')?.textContent.includes('CPUs 16-99 are not online')")
	b.run("history.back()")
	b.await("!document.querySelector('#all').hidden")
	b.click(30, 50)
	b.await("location.hash === '#node=node-0' && document.querySelector('.drawing')")
	b.run("location.hash = ''")
	b.await("!document.querySelector('#all').hidden")
}

// testColors colors the nodes by their values, in light and in dark mode. The address has the color.
func testColors(b *browser) {
	choose := func(color string) {
		b.run("{const c = document.querySelector('#color'); c.value = '" + color + "'; c.dispatchEvent(new Event('change'))}")
		b.await("location.hash.includes('color=" + color + "')")
	}
	for _, c := range []struct{ color, step string }{{"free", "step4"}, {"shared", "step0"}, {"age", "step0"}} {
		choose(c.color)
		b.await(fmt.Sprintf(pixels, c.step) + " > 100 && document.querySelectorAll('#legend li').length === 6")
		b.picture(c.color)
	}
	b.await(fmt.Sprintf(pixels, "step4") + " > 100") // reports of months ago
	b.want("[...document.querySelector('#color').options].find(o => o.value === 'throttled').disabled", "true")
	b.dark(true)
	b.want("getComputedStyle(document.body).backgroundColor", "rgb(13, 17, 23)")
	b.await(fmt.Sprintf(pixels, "step4") + " > 100")
	b.picture("dark-age")
	b.run("location.hash = ''")
	b.await(fmt.Sprintf(pixels, "exclusive") + " > 100")
	b.picture("dark-map")
	b.run("location.hash = 'node=node-3'")
	b.await("document.querySelector('.drawing')?.shadowRoot.querySelector('svg')")
	b.want("getComputedStyle(document.querySelector('.drawing').shadowRoot.querySelector('rect.bg')).fill", "rgb(13, 17, 23)")
	b.picture("dark-node")
	b.dark(false)
	b.run("location.hash = ''")
	b.await("!document.querySelector('#all').hidden")
}

// testSearch finds pods and nodes. Nodes that are not found are faded. A waiting pod has the reason against each node.
func testSearch(b *browser) {
	all := b.eval(fmt.Sprintf(pixels, "exclusive"))
	b.run("document.querySelector('#q').focus()")
	b.do(chromedp.KeyEvent("shop/"))
	b.await("document.querySelectorAll('#found li').length === 3")
	b.want("document.querySelector('#found li').textContent", "shop/late waits")
	b.want("[...document.querySelectorAll('#found li')].map(l => l.textContent).sort()[0]", "shop/"+hostile[0]+" on node-1")
	b.want("document.images.length", "0")
	b.await(fmt.Sprintf(pixels, "exclusive") + " < " + all + " / 10")
	b.await("document.querySelector('#summary').textContent.endsWith('1 node found.')")
	b.want("location.hash", "#q=shop%2F")
	b.picture("search")
	b.run("document.querySelector('#found a').click()")
	b.await("document.querySelectorAll('#detail tbody tr').length === 52")
	b.want("document.querySelector('#detail p').textContent.startsWith('The pod waits: 0/52 nodes are available: ')", "true")
	b.want("[...document.querySelectorAll('#detail tr')].find(r => r.textContent.startsWith('two')).lastElementChild.textContent", "node(s) had untolerated taint {gpu}")
	b.want("[...document.querySelectorAll('#detail tbody tr')].slice(2, 4).map(r => r.firstElementChild.textContent).join()", "node-2,node-3") // not node-10
	b.picture("pod")
	b.do(chromedp.KeyEvent("\u001b"))
	b.await("!document.querySelector('#all').hidden")
	b.want("document.querySelector('#q').value", "shop/")
	b.run("document.querySelector('#q').value = ''; document.querySelector('#q').dispatchEvent(new Event('input'))")
	b.await("document.querySelector('#found').hidden && location.hash === ''")
}

// testTable uses the table with the keyboard. A reload shows the same view.
func testTable(b *browser) {
	b.run("document.querySelector('#view-table').focus()")
	b.do(chromedp.KeyEvent("\r"))
	b.await("document.querySelectorAll('#table tbody tr').length === 50")
	b.want("document.querySelectorAll('#table tbody tr')[2].textContent.startsWith('node-2')", "true") // not node-10
	b.want("document.querySelector('#view-table').ariaPressed", "true")
	b.want("document.querySelectorAll('#table tr')[49].lastElementChild.textContent", "no report yet")
	b.want("[...document.querySelectorAll('#table td bdi')].every(name => name.getClientRects().length === 1)", "true") // no name is broken
	b.picture("table")
	b.do(chromedp.KeyEvent("\t")) // to the first node
	b.want("document.activeElement.textContent", "node-0")
	b.do(chromedp.KeyEvent("\r"))
	b.await("location.hash === '#view=table&node=node-0' && document.querySelector('.drawing')")
	b.want("problems", "")
	b.run("location.hash = 'view=table&color=free&order=value&q=node-1'")
	b.await("document.querySelectorAll('#table tbody tr').length === 11")
	b.do(chromedp.Reload())
	b.await(isLive)
	b.await("document.querySelectorAll('#table tbody tr').length === 11")
	b.want("document.querySelector('#color').value + document.querySelector('#order').value + document.querySelector('#q').value", "freevaluenode-1")
	b.want("problems", "")
}

// testLogin opens a used address and then the newest address, in other tabs.
func testLogin(b *browser, f *field, first string) {
	other := b.tab()
	other.do(chromedp.Navigate(first))
	other.await("!document.querySelector('#login').hidden")
	other.want("document.querySelector('#main').hidden", "true")
	other.want("document.querySelector('#login-text').textContent.includes('Open the newest address')", "true")
	other.picture("login")
	other.run("location.href = '" + f.newest() + "'") // changes only the part after #
	other.await(isLive)
	other.await("document.querySelector('#summary').textContent.startsWith('50 nodes, ')")
	other.want("problems", "")
}

// TestBrowserInCluster: in a cluster, the page asks for a token, and sends it in a header. It keeps the token of the tab.
func TestBrowserInCluster(t *testing.T) {
	b := startBrowser(t)
	s := newTestServer(t, nil, reportOf(t, "a", 1500))
	s.access = tokenAccess{}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(l) }() // ends with an error when it is closed
	t.Cleanup(func() { _ = server.Close() })
	b.do(chromedp.Navigate("http://" + l.Addr().String() + "/#color=free"))
	b.await("document.activeElement.id === 'token'")
	b.picture("token")
	for _, token := range []string{"bad", "good"} {
		b.do(chromedp.KeyEvent(token + "\r"))
		if token == "bad" {
			b.await("document.querySelector('#state').textContent === 'The token is not valid'")
		}
	}
	b.await(isLive)
	b.want("document.querySelector('#summary').textContent.startsWith('1 node, 8 CPUs: ')", "true")
	b.want("location.hash", "#color=free")
	b.do(chromedp.Reload())
	b.await(isLive)
	b.want("problems", "")
}

// tokenAccess is an access for the token "good".
type tokenAccess struct{}

func (tokenAccess) check(_ context.Context, token string, _ ...right) error {
	if token != "good" {
		return errLogin
	}
	return nil
}

func (tokenAccess) login() string { return "token" }
