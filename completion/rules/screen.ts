import type { Domain } from '../../api/domain/domain.ts'
import { numberOf } from '../defaults/reading.ts'
import { eachDevice, list } from './device.ts'
import { duplicate, forbidden, invalid, lacking, notFound, required, unsupported } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

export const graphicsType: Rule = {
  id: 'graphics-type',
  description: 'There is one display server of each type, of a type that QEMU has, and OpenGL on one of them.',
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
  },
  example: example(
    { devices: { graphics: [{ type: 'vnc' }, { type: 'vnc' }] } },
    { devices: { graphics: [{ type: 'vnc' }, { type: 'spice' }] } },
  ),
}

/** VNC's own limit. */
const maxVncPassword = 8

export const graphicsListen = eachDevice('graphics')(
  'graphics-listen',
  'A display server listens on one place, which its type has, and `listen` says the same as `listens`; VNC passwords have 8 characters.',
  ({ type, listens = [], listen, passwd }, at) => {
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

const videos = (...types: ('none' | 'qxl' | 'vga' | 'virtio' | 'cirrus')[]): Domain => ({
  devices: { videos: types.map((type) => ({ model: { type } })) },
})

export const videoSet: Rule = {
  id: 'video-set',
  description:
    'One graphics card is the primary one, the others are qxl or virtio; where there is to be none there is no other.',
  *check({ domain }) {
    const cards = list(domain, 'videos')
    let primary: number | undefined
    for (const [index, { model }] of cards.entries()) {
      const field = `spec.domain.devices.videos[${index}].model`
      if (model?.type === 'none' && cards.length > 1) {
        yield invalid(`${field}.type`, 'none', 'must be the only one: it says that there is no graphics card')
      }
      if (model?.primary !== true) continue
      if (primary !== undefined)
        yield duplicate(`${field}.primary`, true, `is so for videos[${primary}] as well, and one can be`)
      primary ??= index
    }
    if (cards.some(({ model }) => model?.type === 'none')) return
    for (const [index, { model }] of cards.entries()) {
      const isFirst = primary === undefined ? index === 0 : index === primary
      if (
        isFirst ||
        model?.type === undefined ||
        model.primary === true ||
        model.type === 'qxl' ||
        model.type === 'virtio'
      )
        continue
      const message = 'can be the primary graphics card only; a further one is qxl or virtio'
      yield invalid(`spec.domain.devices.videos[${index}].model.type`, model.type, message)
    }
  },
  example: example(videos('qxl', 'none'), videos('qxl', 'qxl')),
}

/** In KiB. */
const minMemory = 1024

export const videoModel = eachDevice('videos')(
  'video-model',
  'A graphics card is one that QEMU has, with the memory and options of its model.',
  ({ model, driver }, at, { capabilities: { words } }) => {
    const { type } = model ?? {}
    const findings: Finding[] = []
    const known = words['video.modelType']
    if (type !== undefined && known && !known.includes(type)) {
      const message = `is no graphics card of the QEMU here; there are: ${known.join(', ')}`
      findings.push(lacking(`graphics card ${type}`, unsupported(`${at}.model.type`, type, message)))
    }
    for (const key of ['ram', 'vram64', 'vgamem'] as const) {
      if (model?.[key] !== undefined && type !== 'qxl') {
        findings.push(forbidden(`${at}.model.${key}`, model[key], `may be given for qxl only, not for ${type}`))
      }
    }
    for (const key of type === 'qxl' ? (['ram', 'vram', 'vgamem'] as const) : (['vram'] as const)) {
      const size = numberOf(model?.[key])
      if (size !== undefined && size > 0 && size < minMemory && type !== 'virtio') {
        findings.push(invalid(`${at}.model.${key}`, size, `must be at least ${minMemory} KiB`))
      }
    }
    const frameBuffer = numberOf(model?.vgamem) ?? 0
    if (type === 'qxl' && (frameBuffer & (frameBuffer - 1)) !== 0) {
      findings.push(invalid(`${at}.model.vgamem`, frameBuffer, 'must be a power of two'))
    }
    if (model?.blob !== undefined && type !== 'virtio')
      findings.push(forbidden(`${at}.model.blob`, model.blob, 'may be given for virtio only'))
    if (model?.acceleration?.accel2d === true)
      findings.push(unsupported(`${at}.model.acceleration.accel2d`, true, 'is not possible with QEMU'))
    const { x, y } = model?.resolution ?? {}
    if ((x === undefined) !== (y === undefined))
      findings.push(required(`${at}.model.resolution.${x === undefined ? 'x' : 'y'}`, 'must be given beside the other'))
    const heads = numberOf(model?.heads) ?? 1
    if (heads > 1 && type !== 'qxl' && type !== 'virtio') {
      findings.push(
        invalid(`${at}.model.heads`, heads, `must be 1 for ${type}: only qxl and virtio have several screens`),
      )
    }
    if (model?.acceleration?.accel3d === true && type !== 'virtio') {
      findings.push(invalid(`${at}.model.acceleration.accel3d`, true, 'is possible for virtio only'))
    }
    if (driver?.name === 'vhostuser' && type !== 'virtio')
      findings.push(invalid(`${at}.driver.name`, 'vhostuser', 'is possible for virtio only'))
    return findings
  },
  example(
    { devices: { videos: [{ model: { type: 'qxl', vgamem: 16_385 } }] } },
    { devices: { videos: [{ model: { type: 'qxl', vgamem: 16_384 } }] } },
  ),
)

export const soundAudio: Rule = {
  id: 'sound-audio',
  description: 'A sound card and a display server name an audio backend that is there; ids of backends are unique.',
  *check({ domain }) {
    const ids = new Set<number>()
    for (const [index, { id }] of list(domain, 'audios').entries()) {
      const number = numberOf(id)
      if (number !== undefined && ids.has(number))
        yield duplicate(`spec.domain.devices.audios[${index}].id`, number, 'is the id of another one as well')
      if (number !== undefined) ids.add(number)
    }
    for (const key of ['sounds', 'graphics'] as const) {
      for (const [index, { audio }] of list(domain, key).entries()) {
        const id = numberOf(audio?.id)
        if (id !== undefined && !ids.has(id))
          yield notFound(`spec.domain.devices.${key}[${index}].audio.id`, id, 'is the id of none of devices.audios')
      }
    }
  },
  example: example(
    { devices: { sounds: [{ model: 'ich9', audio: { id: 2 } }] } },
    { devices: { sounds: [{ model: 'ich9', audio: { id: 1 } }] } },
  ),
}

export const soundModel = eachDevice('sounds')(
  'sound-model',
  'A sound card has a model.',
  ({ model }, at) => (model === undefined ? [required(`${at}.model`, 'must be given, e.g. ich9')] : []),
  example({ devices: { sounds: [{}] } }, { devices: { sounds: [{ model: 'ac97' }] } }),
)

export const screenRules: readonly Rule[] = [graphicsType, graphicsListen, videoSet, videoModel, soundModel, soundAudio]
