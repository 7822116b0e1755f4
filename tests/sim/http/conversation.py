"""A conversation with an API server on which no controllers run: what a newcomer types, and the mistakes they make."""

from tests.sim.http.write_sequence import Story, step

MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: c
        image: example.test/c:1
        ports: [{containerPort: 80}]
        env: [{name: A, value: "1"}, {name: B, value: "2"}]
        resources: {limits: {cpu: "2", memory: 1Gi}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: web}}
data: {colour: green}
---
apiVersion: v1
kind: Pod
metadata: {name: lone, labels: {app: lone}, annotations: {a.b/c: d}}
spec:
  containers:
  - name: main
    image: example.test/main:1
    args: [x]
    resources: {requests: {nvidia.com/gpu: "1"}, limits: {nvidia.com/gpu: "1"}}
  nodeSelector: {disk: ssd}
  tolerations: [{key: a, operator: Exists}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: gpu.scheduling/v1
kind: GpuClaim
metadata: {name: train-0}
spec:
  devices: {count: 4, policy: contiguous, model: H100}
"""
CHANGED = MANIFEST.replace("c:1", "c:2").replace("count: 4", "count: 2").replace("name: A,", "name: Z,")
ODD = MANIFEST.replace("replicas: 2", "replicas: 2\n  colour: red")
CLAIM = "apiVersion: gpu.scheduling/v1\nkind: GpuClaim\nmetadata: {name: bad}\nspec: "
BROKEN_LAWS = CLAIM + "{devices: {count: 99, exclusivity: Shared}}\n"
MISSPELT = CLAIM + "{device: {count: 1}}\n"
SETTINGS = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n"
ENV = '{"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":"B","value":"3"}]}]}}}}'
FIRST_CONTAINER = "jsonpath={.spec.template.spec.containers[0]}"

APPLYING: Story = [
    step("apply -f -", MANIFEST),
    step("apply -f -", MANIFEST),
    step("diff -f -", CHANGED),
    step("apply -f - --dry-run=server", CHANGED),
    step("apply -f - --dry-run=client", CHANGED),
    step("apply -f -", ODD),
    step("apply -f - --validate=warn", ODD),
    step("apply -f - --validate=ignore", MANIFEST),
    step("apply -f -", BROKEN_LAWS),
    step("apply -f -", MISSPELT),
    step("create -f -", BROKEN_LAWS),
    step("apply -f -", CHANGED),
]
LOOKING: Story = [
    step("get deploy,rs,cm/settings,pod,pdb,gpuclaim"),
    step("get deploy,cm/settings,pod,pdb,gpuclaim -o wide"),
    step("get pod lone -o yaml"),
    step("get deploy web -o json"),
    step("get gclaim train-0 -o yaml"),
    step("get pod lone -o jsonpath={.spec.containers[*].image}"),
    step("get pods -o custom-columns=N:.metadata.name,I:.spec.containers[0].image"),
    step("get pods -o name"),
    step("get pods --show-labels"),
    step("get pods -l app=lone -L app"),
    step("get pods --field-selector status.phase=Pending"),
    step("get pods --field-selector spec.nope=1"),
    step("get pods --sort-by=.metadata.name"),
    step("get pods nothere"),
    step("get nothings"),
    step("get gpuclaims.v1.gpu.scheduling"),
    step("get gpuclaim train-0 -o template={{.spec.devices.count}}"),
    step("get all -l app=lone"),
    step("get crd gpuclaims.gpu.scheduling -o name"),
    step("get events"),
    step("describe pod lone"),
    step("describe deploy web"),
    step("describe cm settings"),
    step("describe pdb web"),
    step("describe gpuclaim train-0"),
]
CHANGING: Story = [
    step("label pod lone tier=x"),
    step("label pod lone tier=y"),
    step("label pod lone tier=y --overwrite"),
    step("label pod lone tier-"),
    step("annotate pod lone note=hi"),
    step("annotate pod lone note-"),
    step("label gpuclaim train-0 a=b"),
    step("patch deploy web -p", "", ENV),
    step("patch cm settings --type=merge -p", "", '{"data":{"x":"y"}}'),
    step("patch cm settings --type=json -p", "", '[{"op":"remove","path":"/data/x"}]'),
    step("patch cm settings --type=json -p", "", '[{"op":"remove","path":"/data/nope"}]'),
    step("patch gpuclaim train-0 -p", "", '{"spec":{"pool":"p"}}'),
    step("patch gpuclaim train-0 --type=merge -p", "", '{"spec":{"pool":"p"}}'),
    step("patch gpuclaim train-0 --type=merge --subresource=status -p", "", '{"status":{"phase":"Pending"}}'),
    step("get gclaim"),
    step("set image deploy/web c=example.test/c:3"),
    step("set env deploy/web Q=1"),
    step("set resources deploy/web --limits=cpu=1"),
    step(f"get deploy web -o {FIRST_CONTAINER}"),
    step("scale deploy web --replicas=3"),
    step("scale deploy web --replicas=-1"),
    step("scale pod lone --replicas=3"),
    step("scale deploy web --current-replicas=7 --replicas=1"),
    step("edit cm settings"),
    step("get cm settings -o jsonpath={.data.colour}"),
    step("apply -f - --server-side", MANIFEST),
    step("apply -f - --server-side --field-manager=other", CHANGED),
    step("apply -f - --server-side --field-manager=other --force-conflicts", CHANGED),
    step("apply -f - --server-side --dry-run=server", MANIFEST),
    step("apply -f - --server-side", BROKEN_LAWS),
    step("apply -f - --server-side", MISSPELT),
    step("replace -f -", SETTINGS),
    step("get cm settings -o jsonpath={.data}"),
]
MAKING: Story = [
    step("create cm other --from-literal=a=b"),
    step("create cm other --from-literal=a=b"),
    step("create secret generic hush --from-literal=a=b"),
    step("create sa robot"),
    step("create job once --image=i"),
    step("create deployment made --image=i --replicas=2 --port=80"),
    step("create service clusterip s --tcp=80:8080"),
    step("create role r --verb=get,list --resource=pods"),
    step("create rolebinding rb --role=r --user=me --serviceaccount=default:x"),
    step("create pdb two --selector=app=x --max-unavailable=1"),
    step("create priorityclass {ns} --value=7 --dry-run=server -o yaml"),
    step("create namespace UPPER"),
    step("get cm,secret,sa,job,deploy,role,rolebinding,pdb -l nothing=at-all"),
    step("get cm/other,secret/hush,sa/robot,deploy/made,pdb -o wide"),
    step("get job once"),
    step("get svc s -o jsonpath={.spec.ports}"),
    step("get deploy made -o yaml"),
    step("describe secret hush"),
    step("describe sa robot"),
    step("describe role r"),
    step("run quick --image=i --labels=a=b --env=X=1 --dry-run=server -o yaml"),
    step("run quick --image=i"),
    step("run quick --image=i"),
    step("expose pod quick --port=80"),
]
ASKING: Story = [
    step("auth can-i create pods"),
    step("auth can-i get pods --subresource=log"),
    step("auth can-i * *"),
    step("auth can-i list gpuclaims.gpu.scheduling"),
    step("auth can-i get /version"),
    step("explain gpuclaim.spec"),
    step("explain gpuclaim.spec.devices --recursive"),
    step("explain gpuclaim.spec.devices.policy"),
    step("explain nodeprovisioner.spec.template.gpus"),
    step("explain pod.spec.nope"),
    step("explain nothing"),
    step("explain deploy.spec.strategy --recursive", prose=True),
    step("explain pods.spec.containers.resources --recursive", prose=True),
    step("explain jobs.spec.template.spec.volumes --recursive", prose=True),
    step("wait --for=condition=Ready pod/lone --timeout=1s"),
    step("wait --for=jsonpath={.status.phase}=Pending pod/lone --timeout=5s"),
    step("wait --for=delete pod/nothere --timeout=1s"),
    step("wait --for=create cm/other --timeout=1s"),
    step("rollout status deploy/web --timeout=1s"),
    step("rollout history deploy/web"),
    step("rollout pause deploy/web"),
    step("rollout pause deploy/web"),
    step("rollout resume deploy/web"),
    step("rollout restart deploy/web"),
    step("get --raw /healthz"),
    step("get --raw /nope"),
    step("cluster-info"),
    step("top pods"),
]
REMOVING: Story = [
    step("delete pod lone --grace-period=0 --force"),
    step("delete pod lone"),
    step("delete pod lone --ignore-not-found"),
    step("delete cm settings other"),
    step("delete deploy web --cascade=orphan --wait=false"),
    step("delete gpuclaim --all"),
    step("delete gpuclaim train-0"),
    step("get gpuclaim"),
]
WHOLE: Story = [*APPLYING, *LOOKING, *CHANGING, *MAKING, *ASKING, *REMOVING]
SAMPLE: Story = [
    *APPLYING,
    step("get deploy,rs,cm/settings,pod,pdb,gpuclaim"),
    step("get deploy,cm/settings,pod,pdb,gpuclaim -o wide"),
    step("get gclaim train-0 -o yaml"),
    step("get pods nothere"),
    step("describe pod lone"),
    step("describe gpuclaim train-0"),
    step("label pod lone tier=x"),
    step("patch deploy web -p", "", ENV),
    step(f"get deploy web -o {FIRST_CONTAINER}"),
    step("scale deploy web --replicas=3"),
    step("apply -f - --server-side", MANIFEST),
    step("create deployment made --image=i --replicas=2 --port=80"),
    step("run quick --image=i"),
    step("auth can-i list gpuclaims.gpu.scheduling"),
    step("explain gpuclaim.spec.devices --recursive"),
    step("explain pods.spec.containers.resources --recursive", prose=True),
    step("wait --for=jsonpath={.status.phase}=Pending pod/lone --timeout=5s"),
    step("delete gpuclaim --all"),
]
"""What every run of the tests compares; the whole is long."""
