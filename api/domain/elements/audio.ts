import { attribute, child, element } from '../description.ts'
import { int32, oneOf, uint32, yesNo } from '../scalar.ts'
import { anyPath, line } from '../text.ts'

const host = { reach: 'host' } as const

const settings = element('The format of the sound on the node.', {
  frequency: attribute(uint32, 'Samples per second.'),
  channels: attribute(uint32, 'The number of channels.'),
  format: attribute(oneOf('s8', 'u8', 's16', 'u16', 's32', 'u32', 'f32'), 'The format of a sample.'),
})

/** Both directions have the same fields; the type of the backend decides which apply. */
const direction = element('One direction of the sound.', {
  mixingEngine: attribute(yesNo, 'Whether QEMU itself mixes and converts.'),
  fixedSettings: attribute(yesNo, "Whether the node always gets the format of `settings`, regardless of the guest's."),
  voices: attribute(uint32, 'The number of streams.'),
  bufferLength: attribute(uint32, 'Length of the buffer in microseconds.'),
  bufferCount: attribute(uint32, 'The number of buffers, with `coreaudio`, `oss` and `sdl`.'),
  dev: attribute(anyPath, 'The sound device of the node, with `alsa` and `oss`.', host),
  tryPoll: attribute(yesNo, 'Whether QEMU waits for the device by polling, with `oss`.'),
  name: attribute(line(255), 'The sink or source, with `pulseaudio` and `pipewire`.', host),
  streamName: attribute(line(255), 'The name of the stream, with `pulseaudio` and `pipewire`.'),
  latency: attribute(uint32, 'The latency to aim at in microseconds, with `pulseaudio` and `pipewire`.'),
  serverName: attribute(line(255), 'The JACK server.', host),
  clientName: attribute(line(255), 'The name of this client of JACK.'),
  connectPorts: attribute(line(255), 'A pattern of JACK ports to connect to.', host),
  exactName: attribute(yesNo, 'Whether JACK must use exactly this client name.'),
  settings: child(settings, 'The format of the sound on the node.'),
})

export const audio = element('The audio backend of the guest on the node.', {
  id: attribute({ kind: 'integer', min: 1, max: 255 }, 'Number by which sound cards refer to it.'),
  type: attribute(
    oneOf('none', 'alsa', 'coreaudio', 'jack', 'oss', 'pulseaudio', 'sdl', 'spice', 'file', 'dbus', 'pipewire'),
    'The backend; `none` discards the sound.',
    { reach: 'host', reachOf: { none: 'guest', spice: 'guest', dbus: 'guest' } },
  ),
  timerPeriod: attribute(uint32, 'The polling interval in microseconds.'),
  driver: attribute(oneOf('alsa', 'arts', 'esd', 'pulseaudio'), 'The driver that SDL uses.', host),
  path: attribute(anyPath, 'The file, with `file`.', host),
  serverName: attribute(line(), 'The PulseAudio server.', host),
  runtimeDir: attribute(anyPath, 'The runtime directory of PipeWire.', host),
  tryMMap: attribute(yesNo, 'Whether memory is shared with the device, with `oss`.', host),
  exclusive: attribute(yesNo, 'Whether the device is opened exclusively, with `oss`.', host),
  dspPolicy: attribute(int32, 'The timing policy, with `oss`.', host),
  input: child(direction, 'Sound that the guest records.'),
  output: child(direction, 'Sound that the guest plays.'),
})
