import type { Domain } from '../../api/domain/domain.ts'
import { numberOf } from '../defaults/reading.ts'
import { eachDevice, list } from './device.ts'
import { duplicate, forbidden, forbidEach, invalid, lacking, required, unsupported } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

const videos = (...types: ('none' | 'qxl' | 'vga' | 'virtio' | 'cirrus')[]): Domain => ({
  devices: { videos: types.map((type) => ({ model: { type } })) },
})

const videoSet: Rule = {
  id: 'video-set',
  description:
    'One graphics card is the primary one, the others are qxl or virtio; where there is to be none there is no other.',
  about: ['videos'],
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

const withResolution = ['vga', 'qxl', 'virtio', 'bochs']

const virtioOptions = ['driver.iommu', 'driver.ats', 'driver.packed', 'driver.pagePerVq']

/** In KiB. */
const minMemory = 1024
const maxMemory = 4_194_303

const videoModel = eachDevice('videos')(
  'video-model',
  'A graphics card is one that QEMU has, with the memory and options of its model.',
  ({ model, driver, address }, at, { capabilities: { words }, domain: { memoryBacking } }) => {
    if (model?.type === 'none') return []
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
    for (const key of ['ram', 'vram'] as const) {
      const size = numberOf(model?.[key]) ?? 0
      if (type === 'qxl' && size > maxMemory)
        findings.push(invalid(`${at}.model.${key}`, size, `must be at most ${maxMemory} KiB`))
    }
    const small = numberOf(model?.vgamem) ?? 0
    if (type === 'qxl' && small > 0 && small < minMemory)
      findings.push(invalid(`${at}.model.vgamem`, small, `must be at least ${minMemory} KiB`))
    const frameBuffer = numberOf(model?.vgamem) ?? 0
    if (type === 'qxl' && (frameBuffer & (frameBuffer - 1)) !== 0) {
      findings.push(invalid(`${at}.model.vgamem`, frameBuffer, 'must be a power of two'))
    }
    if (model?.blob !== undefined && type !== 'virtio')
      findings.push(forbidden(`${at}.model.blob`, model.blob, 'may be given for virtio only'))
    if (model?.acceleration?.accel2d === true)
      findings.push(unsupported(`${at}.model.acceleration.accel2d`, true, 'is not possible with QEMU'))
    if (model?.acceleration?.rendernode !== undefined && driver?.name !== 'vhostuser')
      findings.push(
        forbidden(`${at}.model.acceleration.rendernode`, undefined, 'may be given with driver.name vhostuser only'),
      )
    if (model?.resolution && type !== undefined && !withResolution.includes(type))
      findings.push(forbidden(`${at}.model.resolution`, undefined, `may not be given for ${type}`))
    for (const [key, size] of Object.entries(model?.resolution ?? {})) {
      if (numberOf(size) === 0) findings.push(invalid(`${at}.model.resolution.${key}`, size, 'must be at least 1'))
    }
    if (type !== 'virtio')
      findings.push(...forbidEach({ driver }, at, virtioOptions, `may be given for virtio only, not for ${type}`))
    if (type === 'ramfb' && address?.type !== undefined)
      findings.push(forbidden(`${at}.address`, undefined, 'may not be given for ramfb, which is on no bus'))
    if (model?.blob === true && memoryBacking?.source?.type !== 'memfd')
      findings.push(invalid(`${at}.model.blob`, true, 'needs memoryBacking.source.type memfd'))
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

export const videoRules: readonly Rule[] = [videoSet, videoModel]
