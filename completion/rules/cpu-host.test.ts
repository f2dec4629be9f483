import type { Capabilities } from '../../api/capabilities.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
import { bundledCapabilities } from '../capabilities.ts'

/** A node whose CPU has SSE2, but not all of what an EPYC has. */
const capabilities: Capabilities = {
  ...bundledCapabilities,
  accelerators: {
    ...bundledCapabilities.accelerators,
    kvm: {
      cpuModels: [
        { name: 'EPYC', canonical: 'EPYC-v1', blockers: ['svm', 'xsave'] },
        { name: 'pentium3', blockers: [] },
      ],
      cpuFeatures: ['sse2'],
    },
  },
}

type Cpu = NonNullable<Domain['cpu']>
const kvm = (cpu: Cpu): Domain => ({ type: 'kvm', cpu })
const epyc: Cpu = { model: { value: 'EPYC' } }
const without = (...names: string[]): Cpu => ({
  ...epyc,
  features: names.map((name, index) => ({ name, policy: index === 0 ? 'disable' : 'optional' })),
})

testRule('cpu-host', [
  {
    refused: kvm(epyc),
    causes: [
      'spec.domain.cpu.model.value: Unsupported value: "EPYC": the node\'s CPU does not have all features of this model: svm, xsave; mode: host-model [node without CPU features svm, xsave of model EPYC]',
    ],
    accepted: kvm({ model: { value: 'pentium3' } }),
    capabilities,
  },
  {
    refused: kvm({ model: { value: 'EPYC-v1' } }),
    causes: [
      'spec.domain.cpu.model.value: Unsupported value: "EPYC-v1": the node\'s CPU does not have all features of this model: svm, xsave; mode: host-model [node without CPU features svm, xsave of model EPYC-v1]',
    ],
    accepted: kvm({ ...epyc, check: 'none' }),
    capabilities,
  },
  {
    refused: kvm(without('svm')),
    causes: [
      'spec.domain.cpu.model.value: Unsupported value: "EPYC": the node\'s CPU does not have all features of this model: xsave; mode: host-model [node without CPU feature xsave of model EPYC]',
    ],
    accepted: kvm(without('svm', 'xsave')),
    capabilities,
  },
  {
    refused: kvm({ mode: 'host-model', features: [{ name: 'sse2' }, { name: 'avx' }] }),
    causes: [
      'spec.domain.cpu.features[1].name: Unsupported value: "avx": the node\'s CPU does not have it [node without CPU feature avx]',
    ],
    accepted: kvm({ mode: 'host-model', features: [{ name: 'sse2' }, { name: 'avx', policy: 'optional' }] }),
    capabilities,
  },
  {
    refused: kvm({ mode: 'host-passthrough', features: [{ name: 'sse2', policy: 'forbid' }] }),
    causes: [
      'spec.domain.cpu.features[0].policy: Invalid value: "forbid": the node\'s CPU has sse2 [node without a CPU without sse2]',
    ],
    accepted: kvm({ mode: 'host-passthrough', features: [{ name: 'avx', policy: 'forbid' }] }),
    capabilities,
  },
])

testSilent('cpu-host', [{ ...kvm({ ...epyc, features: [{ name: 'avx' }] }), type: 'qemu' }, {}], {
  capabilities,
})
testSilent('cpu-host', [kvm({ ...epyc, features: [{ name: 'avx' }] })])
