import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseVirtualMachine } from '../../api/virtual-machine.ts'
import type { NodeProfile } from '../../api/node-profile.ts'
import { bundledCapabilities } from '../../completion/capabilities.ts'
import { complete } from '../../completion/complete.ts'
import { nodeCapabilities } from '../../completion/nodes.ts'
import { createCandidates } from '../../presets/candidates.ts'
import { openCluster, type TestCluster } from './cluster.ts'
import { deaf } from './vms.ts'

/** The profiles of real nodes, and completion for them. */
let cluster: TestCluster
let profiles: readonly NodeProfile[]

beforeAll(async () => {
  cluster = await openCluster()
  profiles = await cluster.until('each node has a profile', async () => {
    const read = async (kind: string) => JSON.parse(await cluster.kubectl('get', kind, '-o', 'json')).items
    const [nodes, found] = [await read('nodes'), await read('nodeprofiles')]
    return found.length === nodes.length ? found : undefined
  })
})
afterAll(() => cluster?.close())

test('kubectl shows the capabilities of each node', async () => {
  const rows = (await cluster.kubectl('get', 'nodeprofiles')).trim().split('\n')
  expect(rows[0]?.split(/\s+/)).toEqual(['NAME', 'QEMU', 'LIBVIRT', 'MACHINE', 'KVM', 'AGE'])
  for (const row of rows.slice(1)) {
    expect(row).toMatch(/^(node\d|spare) +10\.0\.\d+ +11\.3\.0 +pc-i440fx-10\.0 +(true|false) +\S+$/)
  }
})

test('a profile has the labels of its node and is owned by it', () => {
  for (const { metadata } of profiles) {
    expect(metadata.labels?.['kubernetes.io/hostname']).toBe(metadata.name)
    expect(metadata.ownerReferences).toMatchObject([{ kind: 'Node', name: metadata.name }])
  }
})

test('the QEMU of the nodes equals the bundled profile, except for differences of build and node', () => {
  for (const { spec } of profiles) {
    const { machines, emulator, architecture, devices, firmware } = spec.capabilities
    const { machines: ours, emulator: ourEmulator, architecture: ourArchitecture } = bundledCapabilities
    expect({ machines, emulator, architecture }).toEqual({
      machines: ours,
      emulator: ourEmulator,
      architecture: ourArchitecture,
    })
    const missing = bundledCapabilities.devices.filter((one) => !devices.includes(one))
    // Debian builds QEMU without the kernel's cryptography; the launcher's image has no SPICE and OpenGL.
    expect(missing.filter((one) => one !== 'kvm' && !/^(spice|qxl|virtio-(gpu|vga)-gl)/.test(one))).toEqual([
      'cryptodev-backend-lkcf',
    ])
    expect(firmware.flatMap(({ interfaces }) => interfaces)).toContain('uefi')
  }
})

describe('a VM', () => {
  test('is stored as completed for these nodes, and libvirt changes nothing', async () => {
    const given = deaf('vm', { terminationGracePeriodSeconds: 0 })
    await cluster.apply(given)
    const running = await cluster.untilVm('vm', 'Running', ({ status }) => status?.phase === 'Running')
    const parsed = parseVirtualMachine({ ...given, metadata: { name: 'vm', namespace: cluster.namespace } })
    if ('causes' in parsed) throw new Error(JSON.stringify(parsed.causes))
    const outcome = complete(parsed.vm, {
      presets: createCandidates(),
      namespace: { name: cluster.namespace, labels: {} },
      capabilities: nodeCapabilities(profiles),
      entropy: { uid: 'a' },
    })
    if (outcome.outcome === 'refused') throw new Error(JSON.stringify(outcome.causes))
    const { uuid: _drawn, ...domain } = outcome.vm.spec.domain
    const { uuid: _own, ...stored } = running.spec.domain
    expect(stored).toEqual(domain)
    const condition = (type: string) => running.status?.conditions?.find((one) => one.type === type)?.status
    expect([condition('Synchronized'), condition('SpecDrift')]).toEqual(['True', undefined])
  })

  test('that requires a capability that no node has is refused, with the names of the nodes', async () => {
    const names = profiles.map(({ metadata }) => metadata.name ?? '').toSorted()
    const nodes = `${names.length === 1 ? 'node' : 'nodes'} ${names.join(', ')} ${names.length === 1 ? 'does' : 'do'} not have`
    const { status, output } = await cluster.create(
      deaf('refused', {}, { features: { acpi: {} }, os: { firmware: 'efi', type: { os: 'hvm', machine: 'isapc' } } }),
    )
    expect([status, output]).toEqual([1, expect.stringContaining(`${nodes} firmware efi for machine type isapc`)])
  })
})
