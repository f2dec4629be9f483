import { numberOf } from '../defaults/reading.ts'
import { eachDevice, list } from './device.ts'
import { duplicate, forbidden, forbidEach, invalid, missingCapability, required, unsupported } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

const graphicsType: Rule = {
  id: 'graphics-type',
  description:
    'At most one display server of each type is allowed, of a type that QEMU on the node supports; at most one can use OpenGL.',
  about: ['graphics'],
  *check({ domain, capabilities: { words } }) {
    const known = words['graphics.type']
    const seen = new Map<string, number>()
    let gl: string | undefined
    for (const [index, { type, gl: acceleration }] of list(domain, 'graphics').entries()) {
      const field = `spec.domain.devices.graphics[${index}].type`
      if (type === undefined) {
        yield required(field, 'must be set', 'e.g. vnc')
        continue
      }
      if (type === 'desktop') yield unsupported(field, type, 'is not supported by QEMU')
      else if (known && !known.includes(type)) {
        const message = `QEMU on this node has no such display server; it has ${known.join(', ')}`
        yield missingCapability(`display server ${type}`, unsupported(field, type, message))
      }
      const other = seen.get(type)
      if (other === undefined) seen.set(type, index)
      else yield duplicate(field, type, `is already the type of graphics[${other}]; only one of each type is allowed`)
      if (type !== 'egl-headless' && acceleration?.enable !== true) continue
      if (gl !== undefined) yield invalid(field, type, `only one display server can use OpenGL; ${gl} already does`)
      gl ??= `graphics[${index}]`
    }
    const headless = list(domain, 'graphics').findIndex(({ type }) => type === 'egl-headless')
    const isShown = list(domain, 'graphics').some(({ type }) => type === 'vnc' || type === 'spice')
    if (headless >= 0 && seen.size > 1 && !isShown) {
      const field = `spec.domain.devices.graphics[${headless}].type`
      yield invalid(field, 'egl-headless', 'requires a display server of type vnc or spice')
    }
  },
  example: example(
    { devices: { graphics: [{ type: 'vnc' }, { type: 'vnc' }] } },
    { devices: { graphics: [{ type: 'vnc' }, { type: 'spice' }] } },
  ),
}

/** The limit of VNC. */
const maxVncPassword = 8

const graphicsListen = eachDevice('graphics')(
  'graphics-listen',
  'A display server must listen on one place that its type supports; `listen` must equal `listens`; VNC passwords have at most 8 characters.',
  ({ type, listens = [], listen, passwd, socket, autoport, port, tlsPort }, at) => {
    const findings: Finding[] = []
    if (type === 'spice' && autoport === false && numberOf(port) === -1 && numberOf(tlsPort) === -1)
      findings.push(
        invalid(`${at}.autoport`, false, 'must be true: with port and tlsPort -1, both are chosen at start'),
      )
    if (listens.length > 1)
      findings.push(forbidden(`${at}.listens`, undefined, 'must have one entry: QEMU listens on one place'))
    const [first] = listens
    const kind = first?.type
    if (
      (kind === 'socket' && type !== 'vnc' && type !== 'spice') ||
      (kind === 'none' && (type === 'rdp' || type === 'sdl'))
    ) {
      findings.push(invalid(`${at}.listens[0].type`, kind, `is not supported for type ${type}`))
    }
    if (kind !== undefined && kind !== 'network' && first?.network !== undefined)
      findings.push(forbidden(`${at}.listens[0].network`, first.network, 'can only be set for type network'))
    if (socket !== undefined && kind === 'socket' && first?.socket !== undefined && first.socket !== socket)
      findings.push(invalid(`${at}.socket`, socket, `must be ${first.socket}, like listens[0].socket`))
    if (kind === 'network' && first?.network === undefined)
      findings.push(required(`${at}.listens[0].network`, 'must be set for type network'))
    if (listen !== undefined && kind === 'address' && first?.address !== undefined && first.address !== listen) {
      findings.push(invalid(`${at}.listen`, listen, `must be ${first.address}, like listens[0].address`))
    }
    if (type === 'vnc' && passwd !== undefined && passwd.length > maxVncPassword) {
      findings.push({
        field: `${at}.passwd`,
        reason: 'FieldValueTooLong',
        message: `must be at most ${maxVncPassword} characters, the limit of VNC`,
      })
    }
    return findings
  },
  example(
    { devices: { graphics: [{ type: 'vnc', passwd: 'longer than 8' }] } },
    { devices: { graphics: [{ type: 'vnc', passwd: '8 or les' }] } },
  ),
)

const spiceOptions = [
  'image',
  'jpeg',
  'zlib',
  'playback',
  'streaming',
  'mouse',
  'clipboard',
  'filetransfer',
  'channels',
]
const server = ['port', 'autoport', 'listen', 'listens', 'passwd', 'passwdValidTo', 'connected']
const fieldsOf: { readonly [type: string]: readonly string[] } = {
  vnc: [...server, 'websocket', 'socket', 'keymap', 'sharePolicy', 'powerControl', 'audio'],
  spice: [...server, ...spiceOptions, 'tlsPort', 'keymap', 'defaultMode', 'gl'],
  sdl: ['display', 'xauth', 'fullscreen', 'gl'],
  'egl-headless': ['gl'],
  dbus: ['p2p', 'address', 'gl', 'audio'],
}
const fields = [...new Set([...Object.values(fieldsOf).flat(), 'username', 'multiUser', 'replaceUser'])]

const graphicsFields = eachDevice('graphics')(
  'graphics-fields',
  'A display server must have only the options of its type; `gl` requires `enable` where OpenGL is optional.',
  function* (one, at, { domain }) {
    const { type, gl, p2p, address, audio } = one
    const known = fieldsOf[type ?? '']
    if (!known) return
    const others = fields.filter((field) => !known.includes(field))
    yield* forbidEach(one, at, others, `must not be set for type ${type}`)
    if (gl && gl.enable === undefined && type !== 'egl-headless' && known.includes('gl'))
      yield required(`${at}.gl.enable`, 'must be set')
    if (p2p === true && address !== undefined)
      yield forbidden(`${at}.address`, address, 'must not be set when p2p is true')
    if (type !== 'dbus' || audio?.id === undefined) return
    const backend = list(domain, 'audios').find(({ id }) => numberOf(id) === numberOf(audio.id))
    if (backend && backend.type !== 'dbus')
      yield invalid(`${at}.audio.id`, audio.id, `must be an audio backend of type dbus, not ${backend.type}`)
  },
  example(
    { devices: { graphics: [{ type: 'vnc', tlsPort: 5901 }] } },
    { devices: { graphics: [{ type: 'spice', tlsPort: 5901 }] } },
  ),
)

export const graphicsRules: readonly Rule[] = [graphicsType, graphicsListen, graphicsFields]
