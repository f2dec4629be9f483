import { numberOf } from '../defaults/reading.ts'
import { eachDevice, list } from './device.ts'
import { duplicate, forbidden, forbidEach, invalid, lacking, required, unsupported } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

const graphicsType: Rule = {
  id: 'graphics-type',
  description: 'There is one display server of each type, of a type that QEMU has, and OpenGL on one of them.',
  about: ['graphics'],
  *check({ domain, capabilities: { words } }) {
    const known = words['graphics.type']
    const seen = new Map<string, number>()
    let gl: string | undefined
    for (const [index, { type, gl: acceleration }] of list(domain, 'graphics').entries()) {
      const field = `spec.domain.devices.graphics[${index}].type`
      if (type === undefined) {
        yield required(field, 'must be given, e.g. vnc')
        continue
      }
      if (type === 'desktop') yield unsupported(field, type, 'is no display server of QEMU')
      else if (known && !known.includes(type)) {
        const message = `is no display server of the QEMU here; there are: ${known.join(', ')}`
        yield lacking(`display server ${type}`, unsupported(field, type, message))
      }
      const other = seen.get(type)
      if (other === undefined) seen.set(type, index)
      else yield duplicate(field, type, `is the type of graphics[${other}] as well: QEMU has one of each`)
      if (type !== 'egl-headless' && acceleration?.enable !== true) continue
      if (gl !== undefined) yield invalid(field, type, `draws with OpenGL, as ${gl} does; QEMU has one such display`)
      gl ??= `graphics[${index}]`
    }
    const headless = list(domain, 'graphics').findIndex(({ type }) => type === 'egl-headless')
    const isShown = list(domain, 'graphics').some(({ type }) => type === 'vnc' || type === 'spice')
    if (headless >= 0 && seen.size > 1 && !isShown) {
      const field = `spec.domain.devices.graphics[${headless}].type`
      yield invalid(field, 'egl-headless', 'draws for vnc and spice only, and there is neither')
    }
  },
  example: example(
    { devices: { graphics: [{ type: 'vnc' }, { type: 'vnc' }] } },
    { devices: { graphics: [{ type: 'vnc' }, { type: 'spice' }] } },
  ),
}

/** VNC's own limit. */
const maxVncPassword = 8

const graphicsListen = eachDevice('graphics')(
  'graphics-listen',
  'A display server listens on one place, which its type has, and `listen` says the same as `listens`; VNC passwords have 8 characters.',
  ({ type, listens = [], listen, passwd, socket }, at) => {
    const findings: Finding[] = []
    if (listens.length > 1)
      findings.push(forbidden(`${at}.listens`, undefined, 'may be one: QEMU listens on one place'))
    const [first] = listens
    const kind = first?.type
    if (
      (kind === 'socket' && type !== 'vnc' && type !== 'spice') ||
      (kind === 'none' && (type === 'rdp' || type === 'sdl'))
    ) {
      findings.push(invalid(`${at}.listens[0].type`, kind, `is not possible for type ${type}`))
    }
    if (kind !== undefined && kind !== 'network' && first?.network !== undefined)
      findings.push(forbidden(`${at}.listens[0].network`, first.network, 'may be given for type network only'))
    if (socket !== undefined && kind === 'socket' && first?.socket !== undefined && first.socket !== socket)
      findings.push(invalid(`${at}.socket`, socket, `must be ${first.socket}, as listens[0].socket says`))
    if (kind === 'network' && first?.network === undefined)
      findings.push(required(`${at}.listens[0].network`, 'must be given for type network'))
    if (listen !== undefined && kind === 'address' && first?.address !== undefined && first.address !== listen) {
      findings.push(invalid(`${at}.listen`, listen, `must be ${first.address}, as listens[0].address says`))
    }
    if (type === 'vnc' && passwd !== undefined && passwd.length > maxVncPassword) {
      findings.push({
        field: `${at}.passwd`,
        reason: 'FieldValueTooLong',
        message: `may not be longer than ${maxVncPassword} characters, the limit of VNC`,
      })
    }
    return findings
  },
  example(
    { devices: { graphics: [{ type: 'vnc', passwd: 'longer than 8' }] } },
    { devices: { graphics: [{ type: 'vnc', passwd: '8 or les' }] } },
  ),
)

/** The fields that each type has; the others are for none, or for some that are not named there. */
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
  'A display server has only the options of its type, and says whether it draws with OpenGL where that is a choice.',
  function* (one, at, { domain }) {
    const { type, gl, p2p, address, audio } = one
    const known = fieldsOf[type ?? '']
    if (!known) return
    const others = fields.filter((field) => !known.includes(field))
    yield* forbidEach(one, at, others, `may not be given for type ${type}`)
    if (gl && gl.enable === undefined && type !== 'egl-headless' && known.includes('gl'))
      yield required(`${at}.gl.enable`, 'must be given')
    if (p2p === true && address !== undefined)
      yield forbidden(`${at}.address`, address, 'may not be given where p2p is true')
    if (type !== 'dbus' || audio?.id === undefined) return
    const backend = list(domain, 'audios').find(({ id }) => numberOf(id) === numberOf(audio.id))
    if (backend && backend.type !== 'dbus')
      yield invalid(`${at}.audio.id`, audio.id, `must be an audio backend of type dbus; that one is ${backend.type}`)
  },
  example(
    { devices: { graphics: [{ type: 'vnc', tlsPort: 5901 }] } },
    { devices: { graphics: [{ type: 'spice', tlsPort: 5901 }] } },
  ),
)

export const graphicsRules: readonly Rule[] = [graphicsType, graphicsListen, graphicsFields]
