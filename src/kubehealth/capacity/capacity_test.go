package capacity_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/kubehealth/capacity"
	"github.com/emco-orchestrator/emco/src/kubehealth/kubetest"
)

// list returns resources of "cpu=4 memory=16Gi".
func list(text string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for word := range strings.FieldsSeq(text) {
		name, amount, _ := strings.Cut(word, "=")
		out[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	return out
}

func container(requests string) corev1.Container {
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: list(requests)}}
}

func sidecar(requests string) corev1.Container {
	c, always := container(requests), corev1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

func newNode(name, allocatable string, changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Allocatable: list(allocatable), Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
	for _, change := range changes {
		change(n)
	}
	return n
}

func tainted(key string, effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect}) }
}

func newPod(node string, spec corev1.PodSpec, phase corev1.PodPhase) *corev1.Pod {
	spec.NodeName = node
	return &corev1.Pod{Spec: spec, Status: corev1.PodStatus{Phase: phase}}
}

// show writes classes as "2x cpu 3/4 memory 8Gi/16Gi", the number of nodes and what was cut.
func show(c status.Capacity) string {
	var out []string
	for _, class := range c.Classes {
		text := fmt.Sprintf("%dx", class.Count)
		if class.Only != "" {
			text += " only " + class.Only
		}
		for _, r := range class.Resources {
			text += fmt.Sprintf(" %s %s/%s", r.Name, capacity.Quantity(r.Name, r.Free), capacity.Quantity(r.Name, r.Allocatable))
		}
		out = append(out, text)
	}
	return fmt.Sprintf("%d nodes: %s; %d cut", c.Nodes, strings.Join(out, ", "), c.Cut)
}

func TestWhatNodesHaveFree(t *testing.T) {
	t.Parallel()
	notReady := func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	containers := func(c ...corev1.Container) corev1.PodSpec { return corev1.PodSpec{Containers: c} }
	for name, tt := range map[string]struct {
		nodes []*corev1.Node
		pods  []*corev1.Pod
		want  string
	}{
		"nodes that are alike are one class": {
			nodes: []*corev1.Node{newNode("a", "cpu=4 memory=16Gi"), newNode("b", "cpu=4 memory=16Gi"), newNode("c", "cpu=8 memory=16Gi")},
			want:  "3 nodes: 1x cpu 8/8 memory 16Gi/16Gi, 2x cpu 4/4 memory 16Gi/16Gi; 0 cut",
		},
		"requests of all containers count": {
			nodes: []*corev1.Node{newNode("a", "cpu=4 memory=16Gi pods=10")},
			pods:  []*corev1.Pod{newPod("a", containers(container("cpu=500m memory=1Gi"), container("cpu=500m")), corev1.PodRunning), newPod("a", containers(container("")), corev1.PodPending)},
			want:  "1 nodes: 1x cpu 3/4 memory 15Gi/16Gi pods 8/10; 0 cut",
		},
		"nodes that take no pods are counted only": {
			nodes: []*corev1.Node{
				newNode("a", "cpu=4"), newNode("b", "cpu=4", notReady), newNode("c", "cpu=4", cordoned), newNode("d", "cpu=4", tainted("node-role.kubernetes.io/control-plane", corev1.TaintEffectNoSchedule)),
				newNode("e", "cpu=4", tainted("old", corev1.TaintEffectPreferNoSchedule)),
				{ObjectMeta: metav1.ObjectMeta{Name: "f"}},
			},
			want: "6 nodes: 2x cpu 4/4; 0 cut",
		},
		"pods that ended, wait, or are on other nodes take nothing": {
			nodes: []*corev1.Node{newNode("a", "cpu=4 pods=10")},
			pods: []*corev1.Pod{
				newPod("a", containers(container("cpu=1")), corev1.PodSucceeded), newPod("a", containers(container("cpu=1")), corev1.PodFailed),
				newPod("", containers(container("cpu=1")), corev1.PodPending), newPod("gone", containers(container("cpu=1")), corev1.PodRunning),
			},
			want: "1 nodes: 1x cpu 4/4 pods 10/10; 0 cut",
		},
		"init containers count if they need more": {
			nodes: []*corev1.Node{newNode("a", "cpu=4 memory=32Gi")},
			pods: []*corev1.Pod{newPod("a", corev1.PodSpec{
				InitContainers: []corev1.Container{container("cpu=2 memory=1Gi"), container("cpu=1 memory=8Gi")}, Containers: []corev1.Container{container("cpu=500m memory=2Gi")},
			}, corev1.PodRunning)},
			want: "1 nodes: 1x cpu 2/4 memory 24Gi/32Gi; 0 cut",
		},
		"sidecars run beside later containers": {
			nodes: []*corev1.Node{newNode("a", "cpu=8")},
			pods: []*corev1.Pod{newPod("a", corev1.PodSpec{
				InitContainers: []corev1.Container{container("cpu=1"), sidecar("cpu=1"), container("cpu=4")}, Containers: []corev1.Container{container("cpu=2")},
			}, corev1.PodRunning)},
			want: "1 nodes: 1x cpu 3/8; 0 cut",
		},
		"overhead, and requests of the pod": {
			nodes: []*corev1.Node{newNode("a", "cpu=8 memory=32Gi")},
			pods: []*corev1.Pod{newPod("a", corev1.PodSpec{
				Containers: []corev1.Container{container("cpu=1 memory=1Gi")}, Overhead: list("cpu=1"),
				Resources: &corev1.ResourceRequirements{Requests: list("cpu=3")},
			}, corev1.PodRunning)},
			want: "1 nodes: 1x cpu 4/8 memory 31Gi/32Gi; 0 cut",
		},
		"extended resources, and taints for them": {
			nodes: []*corev1.Node{newNode("a", "cpu=8 nvidia.com/gpu=4", tainted("nvidia.com/gpu", corev1.TaintEffectNoSchedule)), newNode("b", "cpu=8 nvidia.com/gpu=0", tainted("nvidia.com/gpu", corev1.TaintEffectNoSchedule))},
			pods:  []*corev1.Pod{newPod("a", containers(container("nvidia.com/gpu=3")), corev1.PodRunning)},
			want:  "2 nodes: 1x only nvidia.com/gpu cpu 8/8 nvidia.com/gpu 1/4; 0 cut",
		},
		"what is free is rounded down": {
			nodes: []*corev1.Node{newNode("a", "cpu=4 memory=16331752Ki"), newNode("b", "cpu=4 memory=16331756Ki")},
			pods:  []*corev1.Pod{newPod("a", containers(container("cpu=10m")), corev1.PodRunning), newPod("b", containers(container("cpu=120m")), corev1.PodRunning)},
			want:  "2 nodes: 2x cpu 3875m/4 memory 15936Mi/15936Mi; 0 cut",
		},
		"more is requested than there is": {
			nodes: []*corev1.Node{newNode("a", "cpu=4")},
			pods:  []*corev1.Pod{newPod("a", containers(container("cpu=9")), corev1.PodRunning)},
			want:  "1 nodes: 1x cpu 0/4; 0 cut",
		},
		"more than numbers can say is requested": {
			nodes: []*corev1.Node{newNode("a", "cpu=4 memory=16Gi")},
			pods: []*corev1.Pod{
				newPod("a", containers(container("cpu=1000P memory=9223372036854775807M"), container("cpu=9223372036854775807 memory=9E")), corev1.PodRunning),
				newPod("a", containers(container("cpu=9223372036854775807 memory=9E")), corev1.PodRunning),
			},
			want: "1 nodes: 1x cpu 0/4 memory 0/16Gi; 0 cut",
		},
	} {
		var s capacity.Snapshot
		for _, n := range tt.nodes {
			s.AddNode(n)
		}
		for _, p := range tt.pods {
			s.AddPod(p)
		}
		if got := show(s.Capacity()); got != tt.want {
			t.Errorf("%s:\n%s, want\n%s", name, got, tt.want)
		}
	}
}

// The summary of a large cluster stays small, is the same whatever the order, and claims nothing that is not there.
func TestFiveThousandNodesAreBounded(t *testing.T) {
	t.Parallel()
	nodes, total, free := map[string]status.NodeClass{}, uint64(0), uint64(0)
	var s capacity.Snapshot
	for i := range 5000 {
		name := fmt.Sprintf("n%d", i)
		s.AddNode(newNode(name, fmt.Sprintf("cpu=%d memory=%dGi pods=110 example.org/fpga-%d=1", 8+8*(i%4), 32+i%3, i%40)))
		s.AddPod(newPod(name, corev1.PodSpec{Containers: []corev1.Container{container(fmt.Sprintf("cpu=%dm memory=%dMi", i*7%9000, i*13%30000))}}, corev1.PodRunning))
		total += uint64(8+8*(i%4)) * 1000
		free += uint64(max(0, (8+8*(i%4))*1000-i*7%9000))
	}
	c := s.Capacity()
	count, said := c.Cut, uint64(0)
	for _, class := range c.Classes {
		nodes[fmt.Sprint(class.Resources)] = class
		count += class.Count
		said += uint64(class.Count) * class.Resources[0].Free
	}
	text, err := status.Encode(status.Report{Cluster: "p+c", Capacity: c}, 0)
	if err != nil || len(text) > 32<<10 || len(c.Classes) != status.MaxNodeClasses || len(nodes) != status.MaxNodeClasses {
		t.Errorf("%d bytes, %d classes, %v", len(text), len(c.Classes), err)
	}
	if c.Nodes != 5000 || count != 5000 || c.Cut == 0 || said == 0 || said > free || free > total {
		t.Errorf("%d nodes, %d counted, %d cut; %d of %d thousandths of cpu are free, reported are %d", c.Nodes, count, c.Cut, free, total, said)
	}
	if again := s.Capacity(); !reflect.DeepEqual(again, c) {
		t.Error("two summaries differ")
	}
}

// A cluster of equal nodes is one class, or a few: parts are made coarser before anything is cut.
func TestPartsAreMadeCoarserFirst(t *testing.T) {
	t.Parallel()
	var s capacity.Snapshot
	for i := range 1000 {
		name := fmt.Sprintf("n%d", i)
		s.AddNode(newNode(name, "cpu=32 memory=32Gi"))
		s.AddPod(newPod(name, corev1.PodSpec{Containers: []corev1.Container{container(fmt.Sprintf("cpu=%d memory=%dGi", i%32, i/32))}}, corev1.PodRunning))
	}
	c := s.Capacity()
	if c.Cut != 0 || len(c.Classes) < 10 || show(status.Capacity{Classes: c.Classes[:1]}) != "0 nodes: 1x cpu 32/32 memory 32Gi/32Gi; 0 cut" {
		t.Errorf("%s", show(c))
	}
}

func TestWhatIsFreeRisesWhenItStaysFree(t *testing.T) {
	t.Parallel()
	at := func(used string) (s capacity.Snapshot) {
		s.AddNode(newNode("a", "cpu=4"))
		s.AddPod(newPod("a", corev1.PodSpec{Containers: []corev1.Container{container("cpu=" + used)}}, corev1.PodRunning))
		return s
	}
	for want, snapshots := range map[string][]capacity.Snapshot{
		"1 nodes: 1x cpu 1/4; 0 cut": {at("1"), at("3"), at("1")},
		"1 nodes: 1x cpu 3/4; 0 cut": {at("1"), at("1")},
		"0 nodes: ; 0 cut":           {},
	} {
		if got := show(capacity.Least(snapshots...).Capacity()); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestTheClusterIsRead(t *testing.T) {
	t.Parallel()
	server := kubetest.Start(t)
	config, err := clientcmd.RESTConfigFromKubeConfig(server.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	create(t, client, "namespaces", "", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	create(t, client, "nodes", "", newNode("a", "cpu=4 memory=8Gi"))
	pod := newPod("a", corev1.PodSpec{Containers: []corev1.Container{container("cpu=1")}}, corev1.PodRunning)
	pod.Name = "web"
	create(t, client, "pods", "shop", pod)
	s, err := capacity.Read(t.Context(), client)
	if err != nil || show(s.Capacity()) != "1 nodes: 1x cpu 3/4 memory 8Gi/8Gi; 0 cut" {
		t.Errorf("%s, %v", show(s.Capacity()), err)
	}
	server.Rotate()
	if _, err := capacity.Read(t.Context(), client); err == nil || !strings.Contains(err.Error(), "list the nodes of the cluster") || capacity.Problem(err) != "nodes and pods may not be listed" {
		t.Errorf("refused: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := capacity.Read(ended, client); capacity.Problem(err) != "the API server does not answer" {
		t.Errorf("without an answer: %v", err)
	}
}

func create(t *testing.T, client dynamic.Interface, resource, namespace string, o runtime.Object) {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	kind, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(kind[0])
	if _, err := client.Resource(corev1.SchemeGroupVersion.WithResource(resource)).Namespace(namespace).Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
