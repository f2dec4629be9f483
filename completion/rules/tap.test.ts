import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

const vm = (...interfaces: DeviceOf<'interfaces'>[]): Domain => ({ devices: { interfaces } })
const tapped = (dev: string): DeviceOf<'interfaces'> => ({ type: 'ethernet', target: { dev, managed: false } })
const taps = [
  { dev: 'tap0', plugin: 'routed' },
  { dev: 'tap1', plugin: 'routed' },
  { dev: 'tap2', plugin: 'example' },
]
const at = 'spec.domain.devices.interfaces[0]'

testRule('tap-interface', [
  {
    taps,
    refused: vm({ type: 'bridge', source: { bridge: 'br0' }, target: { dev: 'tap0' } }),
    causes: [`${at}.type: Invalid value: "bridge": must be ethernet: tap0 is one of spec.taps`],
    accepted: vm({ type: 'bridge', source: { bridge: 'br0' }, target: { dev: 'tap9' } }),
  },
  {
    taps,
    refused: vm({ type: 'ethernet', target: { dev: 'tap0', managed: true } }),
    causes: [`${at}.target.managed: Invalid value: true: must be false: a plugin creates tap0, as spec.taps states`],
    accepted: vm({ type: 'ethernet', target: { dev: 'tap0', managed: false } }),
  },
])

testRule('tap-once', [
  {
    taps,
    refused: vm(tapped('tap2'), tapped('tap0'), tapped('tap2')),
    causes: [
      'spec.domain.devices.interfaces[2].target.dev: Duplicate value: "tap2": is already the target of devices.interfaces[0]',
    ],
    accepted: vm(tapped('tap2'), tapped('tap0'), tapped('tap9'), tapped('tap9')),
  },
])

testRule('tap-routed', [
  {
    taps,
    refused: vm(tapped('tap0'), tapped('tap1')),
    causes: [
      'spec.taps[1].plugin: Invalid value: "routed": must not be one of routed, nat again: the address of the pod already belongs to tap0',
    ],
    accepted: vm(tapped('tap0'), tapped('tap2')),
  },
])

testRule('tap-routed', [
  {
    taps: [taps[0] ?? { dev: '', plugin: '' }, { dev: 'tap1', plugin: 'nat' }],
    refused: vm(tapped('tap0'), tapped('tap1')),
    causes: [
      'spec.taps[1].plugin: Invalid value: "nat": must not be one of routed, nat again: the address of the pod already belongs to tap0',
    ],
    accepted: vm(tapped('tap1')),
  },
])

testRule('tap-network', [
  {
    taps: [{ dev: 'tap1', plugin: 'redirect' }],
    refused: vm(tapped('tap1')),
    causes: ['spec.taps[0].network: Required value: must be set: the name of a NetworkAttachmentDefinition'],
    accepted: vm(tapped('tap9')),
  },
  {
    taps: [{ dev: 'tap0', plugin: 'routed', network: 'lab' }],
    refused: vm(tapped('tap0')),
    causes: [
      'spec.taps[0].network: Forbidden: must not be set: the plugin routed connects the network of the pod; for another network, set the plugin redirect',
    ],
    accepted: vm(tapped('tap9')),
  },
  {
    taps: [{ dev: 'tap0', plugin: 'nat', network: 'lab' }],
    refused: vm(tapped('tap0')),
    causes: [
      'spec.taps[0].network: Forbidden: must not be set: the plugin nat connects the network of the pod; for another network, set the plugin redirect',
    ],
    accepted: vm(tapped('tap9')),
  },
])

testSilent('tap-interface', [vm({ type: 'ethernet', target: { dev: 'tap0' } }), {}])
testSilent('tap-routed', [vm(tapped('tap1'))], { taps })
testSilent('tap-network', [vm(tapped('tap1'))], { taps: [{ dev: 'tap1', plugin: 'redirect', network: 'infra/lab' }] })
