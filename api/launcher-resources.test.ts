import { expect, it } from 'vitest'
import type { Domain } from './domain/domain.ts'
import { emptyDiskBytes, launcherResources, overlayBytes } from './launcher-resources.ts'

const small: Domain = { memory: { unit: 'MiB', value: 64 } }
const emulated = `${(64 + 90 + 64) * 2 ** 20 + 2 * 2 ** 20 + 2 ** 14 + 2 ** 17 + (32 + 4) * 2 ** 20}`
const withKvm = `${(64 + 90 + 64) * 2 ** 20 + 2 * 2 ** 20 + 2 ** 14 + 3 * 2 ** 17}`

it.each<[string, Domain, ReturnType<typeof launcherResources>]>([
  ['emulated', { type: 'qemu' }, { requests: { cpu: '100m', memory: emulated }, limits: { memory: emulated } }],
  [
    'with KVM',
    { type: 'kvm' },
    {
      requests: { cpu: '100m', memory: withKvm, 'devices.virtset.io/kvm': '1' },
      limits: { memory: withKvm, 'devices.virtset.io/kvm': '1' },
    },
  ],
])('the pod of a VM %s requests what it may use, and limits its memory', (_, over, resources) => {
  expect(launcherResources({ domain: { ...small, ...over } })).toEqual(resources)
})

it('requests a tenth of a CPU for each virtual CPU', () => {
  expect(launcherResources({ domain: { ...small, vcpu: { value: 4 } } }).requests['cpu']).toBe('400m')
})

it('requests and limits whole CPUs if they are dedicated, so that the pod is Guaranteed', () => {
  const domain: Domain = { ...small, type: 'qemu', vcpu: { value: 4 } }
  const { requests, limits } = launcherResources({ domain, dedicatedCPUs: true })
  expect(requests['cpu']).toBe('4')
  expect(requests).toEqual(limits)
})

it('requests less than the limit if the VM states how much of the memory of its guest it requests', () => {
  const { requests, limits } = launcherResources({ domain: { ...small, type: 'qemu' }, memoryRequest: '24Mi' })
  expect(limits['memory']).toBe(emulated)
  expect(requests['memory']).toBe(`${BigInt(emulated) - 40n * 2n ** 20n}`)
})

it('requests each device that its node allocates, beside what the domain needs', () => {
  const hostDevices = ['a', 'b'].map((name) => ({ name, resourceName: 'example.com/gpu' }))
  const domain = { ...small, type: 'kvm', devices: { vsock: {} } } as const
  const { requests, limits } = launcherResources({ domain, hostDevices })
  const devices = { 'devices.virtset.io/kvm': '1', 'devices.virtset.io/vhost-vsock': '1', 'example.com/gpu': '2' }
  expect([requests, limits]).toEqual([expect.objectContaining(devices), expect.objectContaining(devices)])
})

it('gets the devices of each claim of the pod', () => {
  const resourceClaims = [{ name: 'gpus', resourceClaimTemplateName: 'gpus' }]
  expect(launcherResources({ domain: small, resourceClaims })).toEqual({
    ...launcherResources({ domain: small }),
    claims: [{ name: 'gpus' }],
  })
})

it('requests the storage for changes to disks of images, as far as their size is known', () => {
  const requested = (...capacities: (string | undefined)[]) => {
    const volumes = capacities.map((capacity, index) => ({
      name: `v${index}`,
      image: { reference: 'a', ...(capacity === undefined ? {} : { capacity }) },
    }))
    return launcherResources({ domain: small, volumes }).requests['ephemeral-storage']
  }
  expect([requested(), requested(undefined), requested('50Gi', undefined)]).toEqual([
    undefined,
    `${64 * 2 ** 20}`,
    `${51 * 2 ** 30 + 2 * 64 * 2 ** 20}`,
  ])
})

it('counts the cache for each disk in an image', () => {
  const volumes = ['a', 'b'].map((name) => ({ name, image: { reference: 'a' } }))
  const { limits } = launcherResources({ domain: { type: 'qemu', ...small }, volumes })
  expect(limits['memory']).toBe(`${BigInt(emulated) + 8n * 2n ** 20n}`)
})

it('counts the ISO of a Secret or ConfigMap, which is in memory', () => {
  const volumes = [
    { name: 'a', cloudInit: { userData: 'x' } },
    { name: 'b', cloudInit: { userDataSecretRef: { name: 'vm.b' } } },
    { name: 'c', configMap: { name: 'c' } },
  ]
  const { limits } = launcherResources({ domain: { type: 'qemu', ...small }, volumes })
  expect(limits['memory']).toBe(`${BigInt(emulated) + 12n * 2n ** 20n}`)
})

it('allows more for these changes than qcow2 needs for a disk that is full', () => {
  expect(overlayBytes({ reference: 'a', capacity: '50Gi' })).toBe(51n * 2n ** 30n + 64n * 2n ** 20n)
  expect(overlayBytes({ reference: 'a' })).toBe(overlayBytes({ reference: 'a', capacity: '16Gi' }))
})

it('requests the storage that empty disks can take', () => {
  const emptyDisk = { capacity: '50Gi' }
  const volumes = [
    { name: 'scratch', emptyDisk },
    { name: 'root', image: { reference: 'a' } },
    { name: 'data', persistentVolumeClaim: { claimName: 'c' } },
  ]
  const { requests } = launcherResources({ domain: small, volumes })
  expect(emptyDiskBytes(emptyDisk)).toBe(50n * 2n ** 30n + 16n * 2n ** 20n)
  expect(requests['ephemeral-storage']).toBe(`${emptyDiskBytes(emptyDisk) + 64n * 2n ** 20n}`)
})

it('requests huge pages instead of memory', () => {
  const backed: Domain = { ...small, type: 'qemu', memoryBacking: { hugepages: {} } }
  const { requests, limits } = launcherResources({ domain: backed })
  const rest = `${BigInt(emulated) - 64n * 2n ** 20n}`
  expect([limits, requests]).toEqual([
    { memory: rest, 'hugepages-2Mi': `${64 * 2 ** 20}` },
    { cpu: '100m', memory: rest, 'hugepages-2Mi': `${64 * 2 ** 20}` },
  ])
})
