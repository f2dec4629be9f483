import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { run } from '../../cluster/command.ts'
import { startApiServer } from './apiserver.ts'
import type { TestApiServer } from './apiserver.ts'
import { installKinds } from './kinds.ts'

let api: TestApiServer
const kubectl = (...rest: string[]) => run([api.kubectl, '--kubeconfig', api.kubeconfig, ...rest])

beforeAll(async () => {
  api = await startApiServer()
  await installKinds(api)
})
afterAll(() => api?.stop())

describe('the API server', () => {
  test('accepts the schemas', async () => {
    const crds = JSON.parse(await kubectl('get', 'crd', '-o', 'json'))
    const conditions = crds.items.flatMap((crd: { metadata: { name: string }; status: { conditions: object[] } }) =>
      crd.status.conditions.map((condition) => ({ name: crd.metadata.name, ...condition })),
    )
    const bad = conditions.filter(({ type, status }: { type: string; status: string }) =>
      type === 'NonStructuralSchema' || type === 'KubernetesAPIApprovalPolicyConformant'
        ? status === 'True'
        : status !== 'True',
    )
    expect(bad).toEqual([])
    expect(crds.items.length).toBe(11)
  })

  test('serves the short names and the category', async () => {
    const lines = (await kubectl('api-resources', '--api-group=virtset.io', '--no-headers', '-o', 'wide'))
      .trim()
      .split('\n')
    expect(lines.map((line) => line.trim().split(/\s+/).slice(0, 5).join(' ')).toSorted()).toEqual([
      'clusterobjectpresets cop virtset.io/v1alpha1 false ClusterObjectPreset',
      'clustervirtualmachinepresets cvmp virtset.io/v1alpha1 false ClusterVirtualMachinePreset',
      'nodecapabilitysets nodecap virtset.io/v1alpha1 false NodeCapabilitySet',
      'nodeprofiles nodeprof virtset.io/v1alpha1 false NodeProfile',
      'objectpresets op virtset.io/v1alpha1 true ObjectPreset',
      'presettargets pt virtset.io/v1alpha1 false PresetTarget',
      'virtualmachineconfigs vmc,vmic virtset.io/v1alpha1 true VirtualMachineConfig',
      'virtualmachinegroups vmg virtset.io/v1alpha1 true VirtualMachineGroup',
      'virtualmachinepresets vmp virtset.io/v1alpha1 true VirtualMachinePreset',
      'virtualmachines vm,vms,vmi virtset.io/v1alpha1 true VirtualMachine',
      'virtualmachinesnapshots vmsnap virtset.io/v1alpha1 true VirtualMachineSnapshot',
    ])
    expect(lines.filter((line) => /\ball$/.test(line.trim())).length).toBe(3)
  })

  test.each([
    ['vm.spec.domain.memory', 'memory'],
    ['vm.spec.domain.devices.disks.target', 'disk'],
    ['vm.spec.affinity.nodeAffinity', 'node'],
    ['vm.status.phase', 'phase of the vm'],
    ['vmp.spec.selector', 'labels'],
    ['cvmp.spec.namespaceSelector', 'namespaces'],
    ['op.spec.target', 'kind of the objects'],
    ['cop.spec.namespaceSelector', 'namespaces'],
    ['presettarget.spec.restricted', 'grant-host'],
    ['nodecap.spec.capabilities.machines', 'machine types'],
  ])('explains %s', async (field, word) => {
    expect((await kubectl('explain', field)).toLowerCase()).toContain(word)
  })

  test('prints the columns of a VM', async () => {
    const header = async (...wide: string[]) => {
      await kubectl('apply', '-f', 'test/apiserver/plain-vm.yaml')
      const [line = ''] = (await kubectl('get', 'vm', 'plain', ...wide)).split('\n')
      return line.trim().split(/\s+/).join(' ')
    }
    expect(await header()).toBe('NAME PHASE NODE IP READY AGE')
    expect(await header('-o', 'wide')).toBe(
      'NAME PHASE NODE IP READY AGE PRESETS REASON ACCELERATOR MACHINE MEMORY CPUS GUEST',
    )
  })

  test('selects VMs by node and phase', async () => {
    await kubectl('apply', '-f', 'test/apiserver/plain-vm.yaml')
    const status = { status: { phase: 'Running', nodeName: 'node-1' } }
    await kubectl('patch', 'vm', 'plain', '--subresource=status', '--type=merge', '-p', JSON.stringify(status))
    const names = (selector: string) => kubectl('get', 'vm', '--field-selector', selector, '-o', 'name')
    expect(await names('status.nodeName=node-1')).toBe('virtualmachine.virtset.io/plain\n')
    expect(await names('status.phase=Running,status.nodeName=node-2')).toBe('')
  })

  test.each(['..', 'a/status', '%'])('refuses a snapshot of a source with the name %s', async (name) => {
    const file = join(api.directory, 'snapshot.json')
    const metadata = { name: 'snapshot' }
    const snapshot = { apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachineSnapshot', metadata }
    writeFileSync(file, JSON.stringify({ ...snapshot, spec: { source: { name } } }))
    await expect(kubectl('create', '-f', file)).rejects.toThrow('spec.source.name: Invalid value')
  })

  test('ignores the status in a write of the main resource and the spec in a write of the status', async () => {
    await kubectl('apply', '-f', 'test/apiserver/plain-vm.yaml')
    await kubectl('patch', 'vm', 'plain', '--type=merge', '-p', '{"status":{"podIP":"10.0.0.9"}}')
    await kubectl(
      'patch',
      'vm',
      'plain',
      '--subresource=status',
      '--type=merge',
      '-p',
      '{"spec":{"domain":{"title":"x"}}}',
    )
    const vm = JSON.parse(await kubectl('get', 'vm', 'plain', '-o', 'json'))
    expect([vm.status?.podIP, vm.spec.domain.title]).toEqual([undefined, undefined])
  })
})

test('kustomize renders the webhooks, which are called only for virtset’s resources', async () => {
  const rendered = await kubectl('kustomize', 'manifests/webhooks')
  const documents = parseAllDocuments(rendered).map((document) => document.toJS())
  const hooks = documents.flatMap((document) => document.webhooks ?? [])
  expect(hooks.map(({ name }) => name)).toEqual(['mutate.virtset.io', 'validate.virtset.io'])
  for (const { rules, failurePolicy, sideEffects, timeoutSeconds, matchPolicy, namespaceSelector } of hooks) {
    expect([failurePolicy, sideEffects, timeoutSeconds, matchPolicy]).toEqual(['Fail', 'None', 5, 'Equivalent'])
    expect(
      rules.map((rule: { apiGroups: string[]; operations: string[] }) => [rule.apiGroups, rule.operations]),
    ).toEqual([[['virtset.io'], ['CREATE', 'UPDATE']]])
    expect(namespaceSelector.matchExpressions[0].values).toEqual(['kube-system', 'virtset-system'])
  }
  expect(readFileSync('manifests/webhooks/configurations.yaml', 'utf8')).toContain('reinvocationPolicy: IfNeeded')
})
