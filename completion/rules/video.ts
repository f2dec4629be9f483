import type { Domain } from '../../api/domain/domain.ts'
import { numberOf } from '../defaults/reading.ts'
import { eachDevice, list } from './device.ts'
import { duplicate, forbidden, forbidEach, invalid, missingCapability, unsupported } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

const videos = (...types: ('none' | 'qxl' | 'vga' | 'virtio' | 'cirrus')[]): Domain => ({
  devices: { videos: types.map((type) => ({ model: { type } })) },
})

const videoSet: Rule = {
  id: 'video-set',
  description:
    'Only one graphics card can be primary, the others must be qxl or virtio; a card of type `none` must be the only one.',
  about: ['videos'],
  *check({ domain }) {
    const cards = list(domain, 'videos')
    let primary: number | undefined
    for (const [index, { model }] of cards.entries()) {
      const field = `spec.domain.devices.videos[${index}].model`
      if (model?.type === 'none' && cards.length > 1) {
        yield invalid(`${field}.type`, 'none', 'must be the only item: it disables graphics cards')
      }
      if (model?.primary !== true) continue
      if (primary !== undefined)
        yield duplicate(
          `${field}.primary`,
          true,
          `only one graphics card can set this; videos[${primary}] already does`,
        )
      primary ??= index
    }
    if (cards.some(({ model }) => model?.type === 'none')) return
    for (const [index, { model }] of cards.entries()) {
      const isFirst = primary === undefined ? index === 0 : index === primary
      if (isFirst || model?.primary === true || model?.type === 'qxl' || model?.type === 'virtio') continue
      const message = 'is only supported for the primary graphics card; further ones must be qxl or virtio'
      yield invalid(`spec.domain.devices.videos[${index}].model.type`, model?.type, message)
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
  'A graphics card must be one that QEMU supports, with the memory and options of its model.',
  ({ model, driver, address }, at, { capabilities: { words }, domain: { memoryBacking } }) => {
    if (model?.type === 'none') return []
    const { type } = model ?? {}
    const findings: Finding[] = []
    const known = words['video.modelType']
    if (type !== undefined && known && !known.includes(type)) {
      const message = `QEMU on this node has no such graphics card; it has ${known.join(', ')}`
      findings.push(missingCapability(`graphics card ${type}`, unsupported(`${at}.model.type`, type, message)))
    }
    for (const key of ['ram', 'vram64', 'vgamem'] as const) {
      if (model?.[key] !== undefined && type !== 'qxl') {
        findings.push(forbidden(`${at}.model.${key}`, model[key], `can only be set for qxl, not for ${type}`))
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
      findings.push(forbidden(`${at}.model.blob`, model.blob, 'can only be set for virtio'))
    if (model?.acceleration?.accel2d === true)
      findings.push(unsupported(`${at}.model.acceleration.accel2d`, true, 'is not supported by QEMU'))
    if (model?.acceleration?.rendernode !== undefined && driver?.name !== 'vhostuser')
      findings.push(
        forbidden(`${at}.model.acceleration.rendernode`, undefined, 'can only be set with driver.name vhostuser'),
      )
    if (model?.resolution && type !== undefined && !withResolution.includes(type))
      findings.push(forbidden(`${at}.model.resolution`, undefined, `must not be set for ${type}`))
    for (const [key, size] of Object.entries(model?.resolution ?? {})) {
      if (numberOf(size) === 0) findings.push(invalid(`${at}.model.resolution.${key}`, size, 'must be at least 1'))
    }
    if (type !== 'virtio')
      findings.push(...forbidEach({ driver }, at, virtioOptions, `can only be set for virtio, not for ${type}`))
    if (type === 'ramfb' && address?.type !== undefined)
      findings.push(forbidden(`${at}.address`, undefined, 'must not be set for ramfb, which is on no bus'))
    if (model?.blob === true && memoryBacking?.source?.type !== 'memfd')
      findings.push(invalid(`${at}.model.blob`, true, 'requires memoryBacking.source.type memfd'))
    const heads = numberOf(model?.heads) ?? 1
    if (heads > 1 && type !== 'qxl' && type !== 'virtio') {
      findings.push(
        invalid(`${at}.model.heads`, heads, `must be 1 for ${type}; only qxl and virtio support several screens`),
      )
    }
    if (model?.acceleration?.accel3d === true && type !== 'virtio') {
      findings.push(invalid(`${at}.model.acceleration.accel3d`, true, 'is only supported for virtio'))
    }
    if (driver?.name === 'vhostuser' && type !== 'virtio')
      findings.push(invalid(`${at}.driver.name`, 'vhostuser', 'is only supported for virtio'))
    return findings
  },
  example(
    { devices: { videos: [{ model: { type: 'qxl', vgamem: 16_385 } }] } },
    { devices: { videos: [{ model: { type: 'qxl', vgamem: 16_384 } }] } },
  ),
)

export const videoRules: readonly Rule[] = [videoSet, videoModel]
