package remote

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pods describes the pods in which Run runs candor on nodes without an agent.
type Pods struct {
	Namespace string // which must permit privileged pods (PodSecurity)
	Image     string // image of candor
	// Timeout bounds the time until candor has ended in a pod, including the pull of the image.
	Timeout time.Duration
	// StartTimeout bounds the time until the kubelet accepts the pod.
	StartTimeout time.Duration
}

// Labels of the pods.
const (
	managerLabel = "app.kubernetes.io/managed-by"
	manager      = "kubectl-candor"
	runLabel     = "candor.dev/run" // a random word, different for each call of Run
)

// podDeadline is the time after which the kubelet ends a pod, in seconds.
const podDeadline = 120

// program is the path of candor in its image.
const program = "/candor"

// namePrefix is the beginning of the pods' names.
const namePrefix = "candor-audit-"

// pod returns the pod that runs candor on a node. It reads the processes and cgroups of the node, and writes nothing.
func (p *Pods) pod(node, run string, args []string) *corev1.Pod {
	directory := corev1.HostPathDirectory
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: namePrefix, Namespace: p.Namespace,
			Labels: map[string]string{"app.kubernetes.io/name": "candor-audit", managerLabel: manager, runLabel: run},
			Annotations: map[string]string{
				// A node whose runtime requires the plugin, while the agent does not run.
				"tolerate-missing-plugins.noderesource.dev/pod": "true",
			},
		},
		Spec: corev1.PodSpec{
			NodeName:                      node, // the scheduler does not see the pod, so that cordoned and full nodes answer too
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			HostPID:                       true,
			HostNetwork:                   true, // candor uses no network; so the pod also starts on a node without a free address
			RestartPolicy:                 corev1.RestartPolicyNever,
			ActiveDeadlineSeconds:         new(int64(podDeadline)),
			TerminationGracePeriodSeconds: new(int64(0)),
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),
			Containers: []corev1.Container{{
				Name: agentContainer, Image: p.Image, Command: []string{program}, Args: args,
				SecurityContext: securityContext(),
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("16Mi")},
					Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
				},
				VolumeMounts: []corev1.VolumeMount{{Name: "cgroup", MountPath: "/sys/fs/cgroup", ReadOnly: true}},
			}},
			Volumes: []corev1.Volume{{Name: "cgroup", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/sys/fs/cgroup", Type: &directory},
			}}},
		},
	}
}

// securityContext permits candor to read the processes of other users, and nothing else.
func securityContext() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		Privileged:               new(false),
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		RunAsUser:                new(int64(0)),
		RunAsGroup:               new(int64(0)),
		RunAsNonRoot:             new(false),
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		// The runtime's default profile denies the reads that SYS_PTRACE permits.
		AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined},
		Capabilities:    &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"SYS_PTRACE"}},
	}
}
