import type { Domain } from '../../api/domain/domain.ts'
import { testRule } from '../../test/rule-table.ts'

type Devices = NonNullable<Domain['devices']>

const alone = (devices: Devices): Domain => ({ devices })
const withSpice = (devices: Devices): Domain => ({ devices: { ...devices, graphics: [{ type: 'spice' }] } })

const port = { type: 'spiceport', source: { channel: 'org.example.port' } } as const
const parallel: Devices = { parallels: [port] }
const channel: Devices = { channels: [{ type: 'spicevmc', target: { type: 'virtio' } }] }
const card: Devices = { smartcards: [{ mode: 'passthrough', type: 'spicevmc' }] }
const redirection: Devices = { redirdevs: [{ bus: 'usb', type: 'spicevmc' }] }
const egd = { model: 'egd', type: 'spiceport', source: { channel: 'org.example.rng' } } as const
const rng: Devices = { rngs: [{ model: 'virtio', backend: egd }] }
const audio: Devices = { audios: [{ id: 1, type: 'spice' }] }

testRule('spice-graphics', [
  {
    refused: alone({ serials: [port] }),
    causes: [
      'spec.domain.devices.graphics: Required value: must have an item of type spice, because serials[0] has type spiceport; type: spice',
      'spec.domain.devices.graphics: Required value: must have an item of type spice, because consoles[0] has type spiceport; type: spice',
    ],
    accepted: withSpice({ serials: [port] }),
  },
  {
    refused: alone(parallel),
    causes: [
      'spec.domain.devices.graphics: Required value: must have an item of type spice, because parallels[0] has type spiceport; type: spice',
    ],
    accepted: withSpice(parallel),
  },
  {
    refused: alone(channel),
    causes: [
      'spec.domain.devices.graphics: Required value: must have an item of type spice, because channels[0] has type spicevmc; type: spice',
    ],
    accepted: withSpice(channel),
  },
  {
    refused: alone(card),
    causes: [
      'spec.domain.devices.graphics: Required value: must have an item of type spice, because smartcards[0] has type spicevmc; type: spice',
    ],
    accepted: withSpice(card),
  },
  {
    refused: alone(redirection),
    causes: [
      'spec.domain.devices.graphics: Required value: must have an item of type spice, because redirdevs[0] has type spicevmc; type: spice',
    ],
    accepted: withSpice(redirection),
  },
  {
    refused: alone(rng),
    causes: [
      'spec.domain.devices.graphics: Required value: must have an item of type spice, because the backend of rngs[0] has type spiceport; type: spice',
    ],
    accepted: withSpice(rng),
  },
  {
    refused: alone(audio),
    causes: [
      'spec.domain.devices.graphics: Required value: must have an item of type spice, because audios[0] has type spice; type: spice',
    ],
    accepted: withSpice(audio),
  },
])
