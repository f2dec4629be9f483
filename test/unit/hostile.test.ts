import { describe, expect, test } from 'vitest'
import { createEngine } from '../../webhooks/admission/engine.ts'
import { systemClock } from '../../runtime/clock.ts'
import { cachesWithout } from '../../webhooks/admission/caches.ts'
import { noPermissions } from '../../webhooks/admission/permission.ts'
import { admissionReviewOf, parseAdmissionReview } from '../../webhooks/admission/request.ts'
import { mutate, validate } from '../../webhooks/admission/handler.ts'

const times = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, at) => make(at))
const unknown = (count: number) => Object.fromEntries(times(count, (index) => [`k${index}`, 1]))
const devices = (given: object) => ({ devices: given })

const plain = { type: 'kvm', memory: { unit: 'GiB', value: 1 }, os: { type: { os: 'hvm', machine: 'q35' } } }

const labels = { app: 'vm' }
const specs: { readonly [kind: string]: (spec: object) => object } = {
  VirtualMachine: (spec) => spec,
  VirtualMachineConfig: (spec) => ({ template: { spec } }),
  VirtualMachineGroup: (spec) => ({
    replicas: 1,
    selector: { matchLabels: labels },
    template: { metadata: { labels }, spec },
  }),
}

/** The response of admission to an object with a domain as bytes, and its CPU time. */
function review(domain: object, kind = 'VirtualMachine', handle = mutate) {
  const spec = specs[kind]?.({ domain: { ...plain, ...domain } })
  const object = { apiVersion: 'virtset.io/v1alpha1', kind, metadata: { name: 'vm' }, spec }
  const request = { uid: 'u', kind: { kind }, name: 'vm', namespace: 'default', operation: 'CREATE' }
  const text = JSON.stringify({
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: { ...request, userInfo: { username: 'mallory' }, object },
  })
  const engine = createEngine(cachesWithout(systemClock), () => Promise.resolve(false))
  const since = process.cpuUsage()
  const parsed = parseAdmissionReview(JSON.parse(text))
  if (!('request' in parsed)) throw new Error(parsed.problem)
  const { response } = admissionReviewOf(
    parsed.request,
    handle(parsed.request, engine, { controllers: [] }, noPermissions),
  )
  const { user, system } = process.cpuUsage(since)
  const causes = response.status?.details?.causes ?? []
  return {
    allowed: response.allowed,
    first: causes[0] && `${causes[0].field}: ${causes[0].message}`,
    last: causes.length > 1 ? `${causes.at(-1)?.field}: ${causes.at(-1)?.message}` : undefined,
    cpuMs: (user + system) / 1000,
    kilobytes: text.length / 1000,
  }
}

/** The expected fields of the first causes: of the domain, then of its devices. */
const rows: [string, object, { first: string; last?: string }][] = [
  ...[3000, 30_000, 300_000].map((count): [string, object, { first: string; last?: string }] => [
    `${count} unknown fields`,
    unknown(count),
    {
      first: 'spec.domain.k0: Invalid value: 1: there is no such field',
      last: `spec: Too many: ${count - 256}: more faults are not listed; fix the ones above first`,
    },
  ]),
  [
    // An earlier version allocated an array with an item for each, which ended the process.
    '4 billion virtual CPUs of one NUMA node',
    { vcpu: { value: 4_294_967_295 }, cpu: { numa: { cells: [{ memory: 1, unit: 'GiB' }] } } },
    { first: 'spec.domain.vcpu.value: Invalid value: 4294967295: must be at most 4096 for machine type pc-q35-10.0' },
  ],
  [
    '128 NUMA nodes with 100,000 virtual CPUs each',
    { cpu: { numa: { cells: [{}, ...times(127, () => ({ cpus: '0-99999', memory: 1 }))] } } },
    {
      first: 'spec.domain.cpu.numa.cells[0].memory: Required value: must be set: the memory of the NUMA node',
      last: 'spec.domain.cpu.numa.cells[127].cpus: Not found: "0-99999": the VM has no CPU 1, only 0 to 0',
    },
  ],
  [
    'a hundred sets of CPUs with 2,600 exceptions each',
    {
      cputune: {
        vcpupins: times(100, (vcpu) => ({ vcpu, cpuset: `0-9999${times(2600, (at) => `,^${3 * at}`).join('')}` })),
      },
    },
    {
      first:
        'spec.domain.cputune: Forbidden: reaches the host; only a ClusterVirtualMachinePreset can set it; ask an operator for a ClusterVirtualMachinePreset that injects it',
    },
  ],
  [
    'thirty sets of CPUs with 16,000 spaces each',
    { cputune: { vcpupins: times(30, (vcpu) => ({ vcpu, cpuset: `1${' '.repeat(16_000)}x` })) } },
    {
      first: `spec.domain.cputune.vcpupins[0].cpuset: Invalid value: "1${' '.repeat(77)}…: must be a list of numbers and ranges, e.g. 0-3,^2,8`,
      last: `spec.domain.cputune.vcpupins[29].cpuset: Invalid value: "1${' '.repeat(77)}…: must be a list of numbers and ranges, e.g. 0-3,^2,8`,
    },
  ],
  [
    '256 monitors of 4096 virtual CPUs each',
    {
      vcpu: { value: 4096 },
      cputune: { cachetunes: [{ vcpus: '0-4095', monitors: times(256, () => ({ level: 3, vcpus: '0-4095' })) }] },
    },
    {
      first:
        'spec.domain.cputune: Forbidden: reaches the host; only a ClusterVirtualMachinePreset can set it; ask an operator for a ClusterVirtualMachinePreset that injects it',
      last: 'spec.domain.cputune.cachetunes[0].monitors[255].vcpus: Duplicate value: "0-4095": another monitor already has these CPUs',
    },
  ],
  [
    '1,400 namespaces of metadata, and 14,000 elements below them',
    {
      metadata: `<r ${times(1400, (at) => `xmlns:n${at}="u${at}" n${at}:a=""`).join(' ')}>${'<b/>'.repeat(14_000)}</r>`,
      tittle: '',
    },
    { first: 'spec.domain.tittle: Invalid value: "": there is no such field; did you mean "title"?' },
  ],
  [
    '4096 serial ports',
    devices({ serials: times(4096, () => ({ type: 'pty' })) }),
    { first: 'spec.domain.devices.serials: Too many: 4096: must have at most 256 items' },
  ],
  [
    '4096 interfaces',
    devices({ interfaces: times(4096, () => ({ type: 'user' })) }),
    { first: 'spec.domain.devices.interfaces: Too many: 4096: must have at most 256 items' },
  ],
  [
    'nine lists at once',
    devices(
      Object.fromEntries(
        ['serials', 'interfaces', 'inputs', 'channels', 'rngs', 'sounds', 'hubs', 'redirdevs', 'videos'].map((key) => [
          key,
          times(4096, () => ({})),
        ]),
      ),
    ),
    {
      first: 'spec.domain.devices.serials: Too many: 4096: must have at most 256 items',
      last: 'spec.domain.devices.videos: Too many: 4096: must have at most 256 items',
    },
  ],
]

// Without other load, each takes a tenth of the limit. An earlier version took ten times as long as the limit, or
// hours.
test.each(rows)(
  '%s are refused for no more than 500 ms of CPU, and 5 ms for each KB',
  (_, domain, expected) => {
    const { first, last, allowed, cpuMs, kilobytes } = review(domain)
    expect({ allowed, first, last }).toEqual({ allowed: false, last: undefined, ...expected })
    expect(cpuMs).toBeLessThan(500 + 5 * kilobytes)
  },
  120_000,
)

describe.each(['VirtualMachineConfig', 'VirtualMachineGroup'])('the template of a %s', (kind) => {
  const inTemplate = (text: string | undefined) => text?.replace(/^spec\b/, 'spec.template.spec')

  test.each(rows)(
    'with %s costs no more than a VM',
    (_, domain, expected) => {
      const { first, allowed, cpuMs, kilobytes } = review(domain, kind, validate)
      expect({ allowed, first }).toEqual({ allowed: false, first: inTemplate(expected.first) })
      expect(cpuMs).toBeLessThan(500 + 5 * kilobytes)
    },
    120_000,
  )

  test('is refused if its VM would be too large to be stored', () => {
    const entries = times(17, (index) => ({ name: `opt/virtset/${index}`, value: 'x'.repeat(65_000) }))
    expect(review({ sysinfos: [{ type: 'fwcfg', entries }] }, kind, validate)).toMatchObject({
      allowed: false,
      first: expect.stringMatching(/^spec\.template\.spec: Too long: must be at most 1048576 bytes of JSON/),
      last: undefined,
    })
  })
})
