import { existsSync, readFileSync, statSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openCluster, processesOfPod, type TestCluster, type VirtualMachine } from './cluster.ts'
import type { Accelerator } from '../../api/capabilities.ts'
import { deaf } from './vms.ts'

/** The nodes are on this machine: they have KVM if it has. */
const hasKvm = existsSync('/sys/class/misc/kvm/dev')

let cluster: TestCluster
beforeAll(async () => {
  cluster = await openCluster()
})
afterAll(() => cluster.close())

const impatient = { terminationGracePeriodSeconds: 0 }
const isRunning = (vm: VirtualMachine) => vm.status?.phase === 'Running'
const isKvmQemu = (command: string) => /^\/usr\/bin\/qemu-system-\S+ .*-accel kvm/.test(command)
const qemusOf = (vm: VirtualMachine) => processesOfPod(vm.status?.podUID ?? 'no pod', isKvmQemu)

async function handlers(): Promise<number[]> {
  const label = 'app.kubernetes.io/component=handler'
  const path = 'jsonpath={.items[*].metadata.uid}'
  const uids = await cluster.kubectl('-n', 'virtset-system', 'get', 'pods', '-l', label, '-o', path)
  return uids.split(' ').flatMap((uid) => processesOfPod(uid, (command) => command.includes('handler/main.ts')))
}

async function nodesHaveKvm(): Promise<true | undefined> {
  const nodes = await cluster.kubectl('get', 'nodes', '-o', 'name')
  const found = await cluster.kubectl('get', 'nodeprofiles', '-o', 'jsonpath={.items[*].spec.kvm}')
  const isEvery = found.split(' ').every((one) => one === 'true')
  return isEvery && found.split(' ').length === nodes.trim().split('\n').length ? true : undefined
}

/** What a test saw, and what it must have seen. */
type Outcome = readonly [seen: object, expected: object]

async function runUnderKvm(): Promise<Outcome> {
  const { mode } = statSync('/dev/kvm')
  await cluster.until('the profile of each node has KVM', nodesHaveKvm)
  await cluster.apply(deaf('first', impatient, { type: 'kvm' }))
  const first = await cluster.untilVm('first', 'runs', isRunning)
  const qemus = qemusOf(first)

  // The kubelet considers the devices unhealthy until the handler is back. A pod that is bound meanwhile is rejected.
  for (const pid of await handlers()) process.kill(pid, 'SIGKILL')
  await cluster.apply(deaf('second', impatient, { type: 'kvm' }))
  const second = await cluster.untilVm('second', 'runs', isRunning)
  const pods = await cluster.kubectl('get', 'pods', '-l', 'virtset.io/vm-name=second', '-o', 'name')
  const seen = {
    first: qemus.length,
    firstAfterwards: qemusOf(first),
    second: qemusOf(second).length,
    podsOfSecond: pods.trim().split('\n').length,
    mode: statSync('/dev/kvm').mode,
  }
  // QEMU does not run as root: it has a device node that the handler created, and the host's keeps its mode.
  return [seen, { first: 1, firstAfterwards: qemus, second: 1, podsOfSecond: 1, mode }]
}

/** KVM on a virtual node announces this feature, but its hypervisor may not let QEMU set its register. */
const safe = { features: [{ name: 'arch-capabilities', policy: 'disable' }] }

/** VMs with each kind of CPU, the nodes that their pods select, and the CPUs of their QEMUs. */
async function runCpus(): Promise<Outcome> {
  const kvm: Accelerator = JSON.parse(
    await cluster.kubectl('get', 'nodeprofile', 'node1', '-o', 'jsonpath={.spec.capabilities.accelerators.kvm}'),
  )
  const usable = kvm.cpuModels.filter(({ blockers }) => blockers.length === 0).map(({ name }) => name)
  const model = usable.find((name) => ['Nehalem', 'Opteron_G1', 'pentium3'].includes(name)) ?? 'none'
  const feature = kvm.cpuFeatures?.includes('sse2') ? 'sse2' : 'no features'
  const cpus = {
    'host-model': { mode: 'host-model', features: [{ name: 'sse2' }, ...safe.features] },
    'host-passthrough': { mode: 'host-passthrough', ...safe },
    maximum: { mode: 'maximum', ...safe },
    named: { model: { value: model } },
  }
  const names = Object.keys(cpus)
  for (const [name, cpu] of Object.entries(cpus)) await cluster.apply(deaf(name, impatient, { type: 'kvm', cpu }))
  const running: VirtualMachine[] = []
  for (const name of names) running.push(await cluster.untilVm(name, 'runs', isRunning))
  const cpuOf = (pid: number) =>
    / -cpu ([^, ]+)/.exec(readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' '))
  const selectors = ['host-model', 'named'].map((name) =>
    cluster.kubectl('get', 'pods', '-l', `virtset.io/vm-name=${name}`, '-o', 'jsonpath={.items[*].spec.nodeSelector}'),
  )
  // No CPU has the virtualization of both vendors.
  const both = { mode: 'host-model', features: [{ name: 'vmx' }, { name: 'svm' }] }
  const seen = {
    qemu: running.map((vm) => qemusOf(vm).map((pid) => cpuOf(pid)?.[1])),
    selectors: (await Promise.all(selectors)).map((one) => JSON.parse(one)),
    refused: await cluster.create(deaf('refused', impatient, { type: 'kvm', cpu: both })),
  }
  for (const name of names) await cluster.kubectl('delete', 'vm', name, '--wait=false')
  const expected = {
    qemu: [[kvm.hostModel?.model], ['host'], ['max'], [model]],
    selectors: [{ [`cpu-feature.virtset.io/${feature}`]: 'true' }, { [`cpu-model.virtset.io/${model}`]: 'true' }],
    refused: { status: 1, output: expect.stringMatching(/nodes? node1\b.* not have CPU feature (vmx|svm)/) },
  }
  return [seen, expected]
}

async function createWithoutKvm(): Promise<Outcome> {
  const profiles = () => cluster.kubectl('get', 'nodeprofiles', '-o', 'name')
  await cluster.until('the node has a profile', async () => ((await profiles()) === '' ? undefined : true))
  const seen = await cluster.create(deaf('refused', impatient, { type: 'kvm' }))
  return [
    seen,
    { status: 1, output: expect.stringMatching(/spec\.domain\.type: .*"kvm".*nodes? node1\b.* do(es)? not have KVM/) },
  ]
}

test(`a VM of type kvm ${hasKvm ? 'runs under KVM, also if the handler restarts' : 'is refused: this machine has no KVM'}`, async () => {
  const [seen, expected] = await (hasKvm ? runUnderKvm() : createWithoutKvm())
  expect(seen).toEqual(expected)
})

/** Without KVM, nodes have no labels for CPUs. */
async function labelsWithoutKvm(): Promise<Outcome> {
  const labels = await cluster.kubectl('get', 'nodes', '-o', 'jsonpath={.items[*].metadata.labels}')
  return [{ labels: labels.match(/cpu-(model|feature)\.virtset\.io/) }, { labels: null }]
}

test(`a VM gets ${hasKvm ? 'the CPU of its node or a named model' : 'no CPU of a node: this machine has no KVM'}`, async () => {
  const [seen, expected] = await (hasKvm ? runCpus() : labelsWithoutKvm())
  expect(seen).toEqual(expected)
})
