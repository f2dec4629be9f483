import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { originOf } from '../../completion/origins.ts'
import { decodeProvenance } from '../../completion/provenance.ts'
import { systemClock } from '../../runtime/clock.ts'
import { createEngine } from '../../webhooks/admission/engine.ts'
import { writePatch } from '../../webhooks/admission/patch.ts'
import { createMayAccess } from '../../webhooks/admission/permission.ts'
import type { AdmissionRequest, AdmissionResult } from '../../webhooks/admission/request.ts'
import { createTenantRequests } from '../../webhooks/tenant-requests.ts'
import { until } from '../until.ts'
import { startApiServer } from './apiserver.ts'
import type { TestApiServer } from './apiserver.ts'
import { runKubectl, type Output } from './kubectl.ts'
import { startMutatingWebhook, startOtherWebhook, startWebhooks } from './webhooks.ts'
import type { TestWebhooks } from './webhooks.ts'

let api: TestApiServer
let webhooks: TestWebhooks

beforeAll(async () => {
  api = await startApiServer()
  webhooks = await startWebhooks(api, (caches, kube) =>
    createEngine(caches, createMayAccess(createTenantRequests(kube), systemClock)),
  )
  await kubectl('', 'create', 'clusterrolebinding', 'jane', '--clusterrole=edit-everything', '--user=jane')
  const everything = [
    '--verb=*',
    '--resource=virtualmachines.virtset.io,virtualmachinepresets.virtset.io,clustervirtualmachinepresets.virtset.io',
  ]
  await kubectl(
    '',
    'create',
    'clusterrole',
    'edit-everything',
    '--verb=get,list,create,update,patch,delete',
    everything[1] ?? '',
  )
})
afterAll(async () => {
  await webhooks?.stop()
  await api?.stop()
})

const kubectl = (input: string, ...rest: string[]): Promise<Output> => runKubectl(api, input, ...rest)

const apply = (manifest: string, ...rest: string[]) => kubectl(manifest, 'apply', '-f', '-', ...rest)

const read = async (kind: string, name: string) => JSON.parse((await kubectl('', 'get', kind, name, '-o', 'json')).out)

/** The README's example under another name. */
const vmWith = (name: string, more = '', metadata = '') => `
apiVersion: virtset.io/v1alpha1
kind: VirtualMachine
metadata: {name: ${name}${metadata}}
spec:
  domain:
    devices:
      disks:
      - {type: network, snapshot: external, device: disk, driver: {name: qemu, type: raw, cache: none},
         source: {host: {name: iscsi-demo-target.default, port: "3260"}, protocol: iscsi, name: "iqn.2017-01.io.kubevirt:sn.42/2"},
         target: {dev: vda}}
    memory: {unit: MB, value: 64}
    os: {type: {os: hvm}}
    type: qemu
${more}`

const console = (name: string, selector = '{}', more = '') => `
apiVersion: virtset.io/v1alpha1
kind: VirtualMachinePreset
metadata: {name: ${name}}
spec:
  selector: ${selector}
  domain: {devices: {serials: [{type: pty, target: {port: 0}}]}}
${more}`

/** A preset is applied once the watch has reported it. */
const known = (id: string) => until(() => webhooks.caches.candidates.get(id) !== undefined)

describe('a VM by kubectl apply', () => {
  test('is completed with presets and defaults, and stored completely', async () => {
    expect((await apply(console('console', '{matchLabels: {console: "yes"}}'))).err).toBe('')
    await known('default/console')
    expect(await apply(vmWith('whole', '', ', labels: {console: "yes"}'))).toEqual({
      code: 0,
      out: 'virtualmachine.virtset.io/whole created\n',
      err: '',
    })
    const { metadata, spec } = await read('vm', 'whole')
    expect(metadata.finalizers).toEqual(['virtset.io/launcher-pod'])
    expect(metadata.annotations['virtset.io/completed-by']).toContain('console')
    expect(spec.domain.memory).toEqual({ unit: 'MB', value: 64 })
    expect(spec.domain.devices.serials[0]).toMatchObject({ type: 'pty', target: { port: 0 } })
    expect(spec.domain.devices.disks[0].target).toEqual({ dev: 'vda', bus: 'virtio' })
    expect(spec.domain.uuid).toMatch(/^[0-9a-f-]{36}$/)
  })

  test('is not completed by a preset that does not select it', async () => {
    await apply(vmWith('plain'))
    const { spec, metadata } = await read('vm', 'plain')
    expect([spec.domain.devices.serials, metadata.annotations['virtset.io/completed-by'].includes('console')]).toEqual([
      undefined,
      false,
    ])
  })

  test('is refused with every cause at once, and nothing is stored', async () => {
    const wrong = `
apiVersion: virtset.io/v1alpha1
kind: VirtualMachine
metadata: {name: wrong}
spec:
  terminationGracePeriodSeconds: -1
  toleration: []
  domain:
    type: vmware
    memroy: {value: 1}
    devices: {disks: [{device: diskette}]}
`
    const { code, err } = await apply(wrong)
    expect([
      code,
      err
        .split('\n')
        .filter((line) => line !== '')
        .toSorted(),
    ]).toEqual([
      1,
      [
        '* spec.domain.devices.disks[0].device: Unsupported value: "diskette": supported values: "disk", "cdrom", "floppy", "lun"',
        '* spec.domain.memroy: Invalid value: there is no such field; did you mean "memory"?',
        '* spec.domain.memory: Required value: must be more than 0: the memory of the guest; e.g. {unit: GiB, value: 2}',
        '* spec.domain.os.type.os: Required value: must be set; os: {type: {os: hvm}}',
        '* spec.domain.type: Unsupported value: "vmware": supported values: "qemu", "kvm", "hvf"',
        '* spec.terminationGracePeriodSeconds: Invalid value: -1: must be at least 0',
        '* spec.toleration: Invalid value: []: there is no such field; did you mean "tolerations"?',
        'The VirtualMachine "wrong" is invalid: ',
      ].toSorted(),
    ])
    expect((await kubectl('', 'get', 'vm', 'wrong')).err).toContain('NotFound')
  })

  test('is refused if it reaches the host', async () => {
    const { err } = await apply(vmWith('reacher').replace('devices:', 'devices:\n      emulator: /bin/sh'))
    expect(err).toContain('spec.domain.devices.emulator')
  })

  test.each([
    ['with strict validation', []],
    ['without validation', ['--validate=false']],
    ['on the server side', ['--server-side']],
    ['dry on the server', ['--dry-run=server']],
  ])('with an unknown field %s is refused by the webhook, with the nearest name', async (_, rest) => {
    const { code, err } = await apply(vmWith('odd', '    vcpuu: 2\n'), ...rest)
    expect([code, err]).toEqual([
      1,
      'The VirtualMachine "odd" is invalid: spec.domain.vcpuu: Invalid value: 2: there is no such field; did you mean "vcpu"?\n',
    ])
  })

  test('with a server-side dry run is completed and not stored', async () => {
    const { out } = await apply(vmWith('dry'), '--dry-run=server', '-o', 'json')
    expect(JSON.parse(out).spec.domain.devices.disks[0].target.bus).toBe('virtio')
    expect((await kubectl('', 'get', 'vm', 'dry')).err).toContain('NotFound')
  })

  test('is refused with reserved metadata', async () => {
    const { err } = await apply(vmWith('taker', '', ', labels: {virtset.io/vm-uid: x}, annotations: {virtset.io/y: z}'))
    expect(err).toContain('* metadata.labels[virtset.io/vm-uid]: Forbidden')
    expect(err).toContain('* metadata.annotations[virtset.io/y]: Forbidden')
  })

  test('with generateName is named by its prefix in a refusal', async () => {
    const manifest = vmWith('x', '    vcpuu: 1\n').replace('name: x', 'generateName: many-')
    expect((await kubectl(manifest, 'create', '-f', '-')).err).toContain('"many-')
  })
})

describe('a stored VM', () => {
  test.each([
    ['apply', ['apply']],
    ['apply --server-side', ['apply', '--server-side']],
    ['replace', ['replace']],
  ])('does not change when its manifest is applied again by %s', async (name, [verb = '', ...rest]) => {
    const of = name.replaceAll(/[^a-z]/g, '')
    const first = await kubectl(vmWith(of), verb === 'replace' ? 'create' : verb, '-f', '-', ...rest)
    const before = await read('vm', of)
    const again = await kubectl(vmWith(of), verb, '-f', '-', ...rest)
    const after = await read('vm', of)
    expect([first.code, again.code, again.err]).toEqual([0, 0, ''])
    expect([after.spec, after.metadata.uid, after.metadata.generation]).toEqual([before.spec, before.metadata.uid, 1])
    expect(after.metadata.annotations['virtset.io/completed-by']).toBe(
      before.metadata.annotations['virtset.io/completed-by'],
    )
    expect(after.metadata.finalizers).toEqual(before.metadata.finalizers)
  })

  test('does not change by get and apply', async () => {
    await apply(vmWith('round'))
    const { out } = await kubectl('', 'get', 'vm', 'round', '-o', 'yaml')
    expect([(await apply(out)).code, (await read('vm', 'round')).metadata.generation]).toEqual([0, 1])
  })

  test('has an immutable spec, and a refusal names the differences', async () => {
    await apply(vmWith('fixed'))
    const { code, err } = await apply(vmWith('fixed').replace('value: 64', 'value: 128'))
    expect([code, err]).toEqual([
      1,
      'The VirtualMachine "fixed" is invalid: spec.domain.memory.value: Invalid value: 128: cannot be changed from 64: a VM\'s spec is immutable after creation\n',
    ])
    const patch = '[{"op":"remove","path":"/spec/domain/devices/disks/0"}]'
    expect((await kubectl('', 'patch', 'vm', 'fixed', '--type=json', '-p', patch)).err).toContain('cannot be removed')
  })

  test('has another medium in its drive when it is changed, also by the manifest, and only then', async () => {
    const drive = (source: string) => `
apiVersion: virtset.io/v1alpha1
kind: VirtualMachine
metadata: {name: drive}
spec:
  domain:
    memory: {unit: MB, value: 64}
    os: {type: {os: hvm}}
    type: qemu
    devices:
      disks: [{type: volume, device: cdrom, source: ${source}, target: {dev: sda, bus: sata}}]
  volumes: [{name: one, configMap: {name: one}}, {name: two, configMap: {name: two}}]`
    const change = (source: string) => {
      const patch = `[{"op": "add", "path": "/spec/domain/devices/disks/0/source", "value": ${source}}]`
      return kubectl('', 'patch', 'vm', 'drive', '--type=json', '-p', patch)
    }
    const state = async () => {
      const { metadata, spec } = await read('vm', 'drive')
      return [metadata.generation, spec.domain.devices.disks[0].source]
    }
    await apply(drive('{volume: one}'))
    await apply(drive('{volume: one}'))
    expect(await state()).toEqual([1, { volume: 'one' }])
    expect((await change('{"volume": "two"}')).code).toBe(0)
    expect(await state()).toEqual([2, { volume: 'two' }])
    expect((await change('{}')).code).toBe(0)
    expect(await state()).toEqual([3, {}])
    expect((await apply(drive('{volume: one}'))).code).toBe(0)
    expect(await state()).toEqual([4, { volume: 'one' }])
    expect((await change('{"volume": "three"}')).err).toContain('no volume has this name; spec.volumes has one, two')
    expect((await change('{"file": "/etc/passwd"}')).err).toContain("a VM's spec is immutable")
    expect(await state()).toEqual([4, { volume: 'one' }])
  })

  test('of which presets removed or overrode a part can be applied again, and changes nothing', async () => {
    await apply(`
apiVersion: virtset.io/v1alpha1
kind: VirtualMachinePreset
metadata: {name: taking}
spec:
  selector: {matchLabels: {taken: "yes"}}
  strength: Enforce
  remove:
  - domain.devices.disks[target.dev=sda]
  - domain.devices.serials[1]
  - domain.devices.rngs[0]
  domain:
    memory: {unit: GiB, value: 1, dumpCore: "on"}
    clock: {offset: timezone, timezone: Europe/Paris}
    devices: {disks: [{type: volume, source: {volume: four}, target: {dev: vda}}]}
  volumes: [{name: four, configMap: {name: four}}]`)
    await known('default/taking')
    const manifest = (medium: string, serial = 'pty') => `
apiVersion: virtset.io/v1alpha1
kind: VirtualMachine
metadata: {name: taken, labels: {taken: "yes"}}
spec:
  domain:
    memory: {value: 131072}
    clock: {offset: variable, adjustment: 3600, basis: utc}
    os: {type: {os: hvm}}
    type: qemu
    devices:
      disks:
      - {type: volume, device: cdrom, source: {volume: one}, target: {dev: sda, bus: sata}}
      - {type: volume, device: cdrom, source: {volume: ${medium}}, target: {dev: sdb, bus: sata}}
      - {type: volume, device: disk, source: {volume: three}, target: {dev: vda}, readonly: {}}
      serials: [{type: pty}, {type: ${serial}}]
      rngs: [{model: virtio, backend: {model: builtin}}]
  volumes:
  - {name: one, configMap: {name: one}}
  - {name: two, configMap: {name: two}}
  - {name: three, configMap: {name: three}}
  - {name: other, configMap: {name: other}}`
    expect(await apply(manifest('two'))).toMatchObject({ code: 0 })
    const first = await read('vm', 'taken')
    expect(first.spec.volumes.map((volume: { name: string }) => volume.name)).toEqual(['two', 'other', 'four'])
    for (const options of [
      ['apply', '-f', '-'],
      ['apply', '-f', '-', '--server-side', '--force-conflicts'],
      ['apply', '-f', '-', '--server-side', '--force-conflicts', '--field-manager=other'],
      ['replace', '-f', '-'],
      ['apply', '-f', '-'],
    ]) {
      expect(await kubectl(manifest('two'), ...options)).toMatchObject({ code: 0 })
      const { metadata, spec } = await read('vm', 'taken')
      expect([metadata.generation, spec]).toEqual([1, first.spec])
    }
    expect((await apply(manifest('two', 'stdio'))).err).toContain(
      'spec.domain.devices.serials[1]: Invalid value: {"type":"stdio"}: cannot be added',
    )
    expect((await apply(manifest('three'))).err).toContain('spec.domain.devices.disks[1].source.volume: ')
    expect(await apply(manifest('other'))).toMatchObject({ code: 0 })
    const { metadata, spec } = await read('vm', 'taken')
    expect([metadata.generation, spec.domain.devices.disks[0].source]).toEqual([2, { volume: 'other' }])
  })

  test('preserves the labels that a preset enforces, and its provenance', async () => {
    await apply(`
apiVersion: virtset.io/v1alpha1
kind: VirtualMachinePreset
metadata: {name: billing}
spec: {selector: {matchLabels: {billed: "yes"}}, strength: Enforce, metadata: {labels: {tier: gold}}}`)
    await known('default/billing')
    expect((await apply(vmWith('billed', '', ', labels: {billed: "yes", tier: free}'))).code).toBe(0)
    const { metadata } = await read('vm', 'billed')
    const provenance = metadata.annotations['virtset.io/completed-by']
    const message =
      'metadata.labels.tier: Invalid value: "free": must remain "gold": preset "default/billing" enforces it'
    expect((await kubectl('', 'label', 'vm', 'billed', '--overwrite', 'tier=cheap')).err).toContain(
      message.replace('free', 'cheap'),
    )
    expect((await kubectl('', 'label', 'vm', 'billed', 'tier-')).err).toContain(
      'Warning: metadata.labels.tier remains: preset "default/billing" enforces it',
    )
    expect((await kubectl('', 'label', 'vm', 'billed', 'billed-')).code).toBe(0)
    expect((await apply(vmWith('billed', '', ', labels: {tier: free}'))).code).toBe(0)
    await kubectl('', 'annotate', 'vm', 'billed', '--overwrite', 'virtset.io/completed-by={"v":1,"by":[]}')
    const after = (await read('vm', 'billed')).metadata
    expect([after.labels, after.annotations['virtset.io/completed-by']]).toEqual([{ tier: 'gold' }, provenance])
  })

  test('accepts labels, but only the controller can change owners and the finalizer', async () => {
    await apply(vmWith('held'))
    expect((await kubectl('', 'label', 'vm', 'held', 'a=b', '--as=jane')).code).toBe(0)
    const owner = {
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'VirtualMachineConfig',
      name: 'c',
      uid: 'u',
      controller: true,
    }
    const owned = JSON.stringify({ metadata: { ownerReferences: [owner] } })
    const controller = ['--as=system:serviceaccount:virtset-system:virtset-controller', '--as-group=system:masters']
    const patch = (body: string, ...as: string[]) =>
      kubectl('', 'patch', 'vm', 'held', '--type=merge', '-p', body, ...as)
    expect((await patch(owned, '--as=jane')).err).toContain("only virtset's controller can make")
    expect((await patch(owned, ...controller)).code).toBe(0)
    expect((await patch('{"metadata":{"ownerReferences":null}}', '--as=jane')).err).toContain('must not be removed')
    await kubectl('', 'delete', 'vm', 'held', '--wait=false')
    expect((await patch('{"metadata":{"finalizers":null}}', '--as=jane')).err).toContain(
      'metadata.finalizers: Forbidden',
    )
    expect((await patch('{"metadata":{"finalizers":null}}', ...controller)).code).toBe(0)
    expect((await kubectl('', 'get', 'vm', 'held')).err).toContain('NotFound')
  })
})

describe('a preset', () => {
  test('without selector, or with an invalid domain, is refused', async () => {
    const bad = console('bad', '{}', '  strength: Always\n').replace('selector: {}', 'namespaceSelector: {}')
    const { err } = await apply(bad)
    expect(
      err
        .split('\n')
        .filter((line) => line.startsWith('*'))
        .toSorted(),
    ).toEqual([
      '* spec.namespaceSelector: Invalid value: {}: there is no such field; use a ClusterVirtualMachinePreset',
      '* spec.selector: Required value: must be given',
      '* spec.strength: Unsupported value: "Always": supported values: "Default", "Enforce"',
    ])
    expect((await apply(console('bad').replace('serials', 'serails'))).err).toContain('serails')
  })

  test('that selects every VM gets a warning', async () => {
    expect((await apply(console('all'), '--dry-run=server')).err).toContain('Warning: ')
  })

  test('cannot reach the host if namespaced; a cluster preset requires the verb grant-host', async () => {
    const reaching = (kind: string) => `
apiVersion: virtset.io/v1alpha1
kind: ${kind}
metadata: {name: grant}
spec:
  selector: {matchLabels: {granted: "yes"}}
  domain: {devices: {emulator: /usr/local/bin/qemu}}
`
    expect((await apply(reaching('VirtualMachinePreset'))).err).toContain('spec.domain.devices.emulator')
    expect((await apply(reaching('ClusterVirtualMachinePreset'), '--as=jane')).err).toContain('grant-host')
    expect((await apply(reaching('ClusterVirtualMachinePreset'))).err).toBe('')
    await known('grant')
    await apply(vmWith('granted', '', ', labels: {granted: "yes"}'))
    expect((await read('vm', 'granted')).spec.domain.devices.emulator).toBe('/usr/local/bin/qemu')
    expect((await apply(vmWith('granted', '', ', labels: {granted: "yes"}'))).code).toBe(0)
  })

  test('of the cluster can be excluded only with the verb exempt', async () => {
    await apply(
      console('site', '{matchLabels: {site: "yes"}}').replace('VirtualMachinePreset', 'ClusterVirtualMachinePreset'),
    )
    await known('site')
    const declining = (name: string) =>
      vmWith(name, '', ', labels: {site: "yes"}, annotations: {virtset.io/exclude-presets: "site"}')
    const refused = await apply(declining('declines-1'), '--as=jane')
    expect([refused.code, refused.err.includes('exempt')]).toEqual([0, true])
    expect((await read('vm', 'declines-1')).spec.domain.devices.serials?.length).toBe(1)
    await apply(declining('declines-2'))
    expect((await read('vm', 'declines-2')).spec.domain.devices.serials).toBe(undefined)
  })
})

test('refuses a VM of which another webhook, called last, has replaced what a preset enforces', async () => {
  const strength =
    "  strength: Enforce\n  selector: {matchLabels: {written-over: 'yes'}}\n  domain: {title: enforced}\n"
  const head = 'apiVersion: virtset.io/v1alpha1\nkind: VirtualMachinePreset\nmetadata: {name: enforced}\nspec:\n'
  await apply(head + strength)
  await known('default/enforced')
  let calls = 0
  const replaceTitle = ({ object }: AdmissionRequest): AdmissionResult => {
    calls++
    const isThere = JSON.stringify(object).includes('"title":"other"')
    const patch = isThere ? [] : [{ op: 'add' as const, path: '/spec/domain/title', value: 'other' }]
    return { allowed: true, patch: writePatch(patch) }
  }
  const rule = { apiGroups: ['virtset.io'], apiVersions: ['*'], operations: ['CREATE'], resources: ['virtualmachines'] }
  const other = await startMutatingWebhook(api, replaceTitle, { rule, label: 'written-over' })
  try {
    const again = '[{"op":"add","path":"/webhooks/0/reinvocationPolicy","value":"IfNeeded"}]'
    await kubectl('', 'patch', 'mutatingwebhookconfiguration', 'zz-other', '--type=json', '-p', again)
    const create = () => apply(vmWith('over', '', ', labels: {written-over: "yes"}'), '--dry-run=server')
    await until(async () => {
      calls = 0
      await create()
      // Once beside ours, and again after ours was called again.
      return calls === 2
    })
    const { code, err } = await create()
    expect([code, err]).toEqual([1, expect.stringContaining('is not what preset "default/enforced" enforces')])
  } finally {
    await kubectl('', 'delete', 'mutatingwebhookconfiguration', 'zz-other')
    await kubectl('', 'delete', 'vmp', 'enforced')
    await other.drain(0)
  }
})

test('completes a disk that another webhook adds, and preserves the provenance', async () => {
  await apply(console('second', '{matchLabels: {second: "yes"}}'))
  await known('default/second')
  const other = await startOtherWebhook(api)
  try {
    const labels = ', labels: {second: "yes", extra-disk: "yes"}'
    expect((await apply(vmWith('twice', '', labels))).err).toBe('')
    await apply(vmWith('once', '', ', labels: {second: "yes"}'))
    const [twice, once] = [await read('vm', 'twice'), await read('vm', 'once')]
    const { disks, serials } = twice.spec.domain.devices
    expect(disks.map(({ target }: { target: object }) => target)).toMatchObject([
      { dev: 'vda', bus: 'virtio' },
      { dev: 'vdz', bus: 'virtio' },
    ])
    expect(serials.length).toBe(1)
    const origins = (vm: typeof twice) => {
      const provenance = decodeProvenance(vm.metadata.annotations['virtset.io/completed-by'])
      return [
        'spec.domain.devices.serials[0].type',
        'spec.domain.devices.disks[0].target.bus',
        'spec.domain.memory.value',
      ].map((path) => originOf(provenance?.origins ?? new Map(), path).by)
    }
    expect([origins(twice), origins(once)]).toEqual([
      ['preset', 'default', 'user'],
      ['preset', 'default', 'user'],
    ])
  } finally {
    await kubectl('', 'delete', 'mutatingwebhookconfiguration', 'zz-other')
    await other.drain(0)
  }
})

test('a request that an overloaded replica rejects is sent again', async () => {
  const other = await startOtherWebhook(api, 2)
  try {
    expect((await apply(vmWith('again', '', ', labels: {extra-disk: "yes"}'))).err).toBe('')
    expect((await read('vm', 'again')).spec.domain.devices.disks).toHaveLength(2)
  } finally {
    await kubectl('', 'delete', 'mutatingwebhookconfiguration', 'zz-other')
    await other.drain(0)
  }
})

test('a preset that selects namespaces by labels applies to the first VM of a new namespace', async () => {
  await apply(`
apiVersion: virtset.io/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: of-tenants}
spec: {selector: {}, namespaceSelector: {matchLabels: {tenant: "yes"}}, strength: Enforce, domain: {title: of a tenant}}`)
  await known('of-tenants')
  for (const name of ['tenant-a', 'tenant-b', 'tenant-c']) {
    const namespace = `{apiVersion: v1, kind: Namespace, metadata: {name: ${name}, labels: {tenant: "yes"}}}`
    const { err } = await apply(`${namespace}\n---${vmWith('first', '', `, namespace: ${name}`)}`)
    expect(err.split('\n').filter((line) => line !== '' && !line.startsWith('Warning: '))).toEqual([])
    const vm = JSON.parse((await kubectl('', 'get', 'vm', 'first', '-n', name, '-o', 'json')).out)
    expect(vm.spec.domain.title).toBe('of a tenant')
  }
})

test('a preset applies to a VM that is created right after it', async () => {
  const lost: string[] = []
  for (let count = 0; count < 200; count++) {
    const name = `fresh-${count}`
    const [preset, vm] = [
      parse(console(name, `{matchLabels: {fresh: "${count}"}}`)),
      parse(vmWith(name, '', `, labels: {fresh: "${count}"}`)),
    ]
    const base = '/apis/virtset.io/v1alpha1/namespaces/default'
    await webhooks.kube.request('POST', `${base}/virtualmachinepresets`, preset)
    const answer = JSON.stringify(await webhooks.kube.request('POST', `${base}/virtualmachines?dryRun=All`, vm))
    if (!answer.includes('"serials"')) lost.push(name)
  }
  expect(lost).toEqual([])
})

describe('attached volumes of a stored VM', () => {
  const item = (name: string, more: object = {}) => ({ name, persistentVolumeClaim: { claimName: name }, ...more })
  const patch = (...attachedVolumes: object[]) =>
    kubectl('', 'patch', 'vm', 'hot', '--type=merge', '-p', JSON.stringify({ spec: { attachedVolumes } }))
  const attached = async () => (await read('vm', 'hot')).spec.attachedVolumes
  const a = item('a', { target: { dev: 'vdb', bus: 'virtio' } })

  test('are added and removed by patches and server-side apply, and stay when a manifest without them is applied', async () => {
    expect((await apply(vmWith('hot'))).code).toBe(0)
    expect((await patch(item('a'))).code).toBe(0)
    expect(await attached()).toEqual([a])
    expect((await apply(vmWith('hot'))).code).toBe(0)
    expect(await attached()).toEqual([a])
    const applied = { apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachine', metadata: { name: 'hot' } }
    const ofOther = { ...applied, spec: { attachedVolumes: [item('b')] } }
    const server = ['--server-side', '--field-manager=other', '--validate=false']
    expect((await apply(JSON.stringify(ofOther), ...server)).code).toBe(0)
    expect(await attached()).toEqual([a, item('b', { target: { dev: 'vdc', bus: 'virtio' } })])
    expect((await patch()).code).toBe(0)
    expect(await attached()).toEqual([])
  })

  test('are refused with every cause, and where the spec is immutable beside them', async () => {
    const body = {
      spec: {
        attachedVolumes: [item('a', { target: { dev: 'sdb', bus: 'sata' } }), item('b', { target: { dev: 'vda' } })],
        terminationGracePeriodSeconds: 7,
      },
    }
    const { code, err } = await kubectl('', 'patch', 'vm', 'hot', '--type=merge', '-p', JSON.stringify(body))
    expect(code).not.toBe(0)
    expect(err).toContain('spec.attachedVolumes[0].target.bus: Unsupported value: "sata"')
    expect(err).toContain('spec.attachedVolumes[1].target.dev: Duplicate value: "vda"')
    expect(err).toContain('spec.terminationGracePeriodSeconds')
  })
})

// The webhooks have ended afterwards.
test('without webhooks VMs cannot be created, with an explanation, but can be deleted', async () => {
  await apply(vmWith('orphan'))
  await webhooks.server.drain(0)
  const { code, err } = await apply(vmWith('late'))
  expect([code, err]).toEqual([1, expect.stringContaining('failed calling webhook "mutate.virtset.io"')])
  expect(err).toContain('the server is currently unable to handle the request')
  expect((await kubectl('', 'delete', 'vm', 'orphan', '--wait=false')).code).toBe(0)
  // The controller removes the finalizer with an UPDATE, which needs no webhook.
  const patch = ['patch', 'vm', 'orphan', '--type=merge', '-p', '{"metadata":{"finalizers":null}}']
  const controller = ['--as=system:serviceaccount:virtset-system:virtset-controller', '--as-group=system:masters']
  expect((await kubectl('', ...patch, '--as=jane')).err).toContain('failed calling webhook')
  expect((await kubectl('', ...patch, ...controller)).code).toBe(0)
  expect((await kubectl('', 'get', 'vm', 'orphan')).err).toContain('NotFound')
  expect((await kubectl('', 'create', 'configmap', 'other', '--from-literal=a=b')).code).toBe(0)
})
