import type { Domain } from '../../api/domain/domain.ts'
import { testRule } from '../../test/rule-table.ts'

const field = 'spec.domain.devices.filesystems[0].source.volume'
const claim = (name: string, more: object = {}) => ({ name, persistentVolumeClaim: { claimName: name, ...more } })
const share = (volume: string) => ({ type: 'volume' as const, source: { volume }, target: { dir: volume } })
const sharing = (volume: string, more: Domain['devices'] = {}): Domain => ({
  devices: { filesystems: [share(volume)], ...more },
})
const disk = (volume: string) => ({ type: 'volume' as const, source: { volume }, target: { dev: 'vda' } })

testRule('filesystem-volume', [
  {
    volumes: [claim('data'), claim('other')],
    refused: sharing('dat'),
    causes: [`${field}: Not found: "dat": no volume has this name; spec.volumes has data, other; did you mean "data"?`],
    accepted: { devices: { filesystems: [share('data'), share('other'), { ...share('data'), readonly: {} }] } },
  },
  { refused: sharing('data'), causes: [`${field}: Not found: "data": spec.volumes is empty`], accepted: {} },
  {
    volumes: [claim('data'), { name: 'scratch', emptyDisk: { capacity: '1Gi' } }],
    refused: sharing('scratch'),
    causes: [
      `${field}: Invalid value: "scratch": must name a volume of kind persistentVolumeClaim, whose files are shared`,
    ],
    accepted: sharing('data'),
  },
  {
    volumes: [claim('data'), claim('root')],
    deviceStateVolume: 'data',
    refused: sharing('data', { disks: [disk('data')] }),
    causes: [
      `${field}: Duplicate value: "data": spec.domain.devices.disks[0].source.volume uses this claim: a guest could replace its own disk`,
      `${field}: Duplicate value: "data": spec.deviceStateVolume uses this claim: a guest could replace its own firmware`,
    ],
    accepted: sharing('root', { disks: [disk('data')] }),
  },
  {
    volumes: [claim('data'), { ...claim('data'), name: 'again' }, claim('root')],
    deviceStateVolume: 'again',
    refused: sharing('data', { disks: [disk('again')] }),
    causes: [
      `${field}: Duplicate value: "data": spec.domain.devices.disks[0].source.volume uses this claim: a guest could replace its own disk`,
      `${field}: Duplicate value: "data": spec.deviceStateVolume uses this claim: a guest could replace its own firmware`,
    ],
    accepted: sharing('root', { disks: [disk('again')] }),
  },
  {
    volumes: [
      claim('data', { capacity: '1Gi', source: { claim: { claimName: 'golden' } } }),
      claim('empty', { capacity: '1Gi', source: { empty: {} } }),
    ],
    refused: sharing('data'),
    causes: [
      `spec.volumes[0].persistentVolumeClaim.source.claim: Forbidden: must not be set: ${field} shares the files of the claim, which has no disk`,
    ],
    accepted: sharing('empty'),
  },
])
