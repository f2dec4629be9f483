import type { Domain } from '../../api/domain/domain.ts'
import { hostPaths } from '../../presets/grant.ts'
import { example, type Rule } from './rule.ts'

/**
 * What a guest wrote into a raw image could be read as a header, which names files that QEMU opens below it. Images
 * that defaults select, such as the firmware of the node, have the format of their descriptor.
 */
export const imageFormat: Rule = {
  id: 'host-image-format',
  description:
    'An image of the host is opened as raw, unless a ClusterVirtualMachinePreset states another format. The default format of a variable store is not enough, because it follows formats that users set.',
  about: ['driver', 'format', 'templateFormat'],
  *check({ domain, originOf, isGranted, isStated = isGranted }) {
    const images = [...imagesOf(domain)].filter(({ format }) => format !== undefined && format !== 'raw')
    if (images.length === 0) return
    const devices = new Set(images.map(({ field }) => deviceOf(field)))
    const ofImages = hostPaths({ domain }).filter((path) => devices.has(deviceOf(path)))
    const stated = sourcesOf(ofImages.filter((path) => originOf(path).by !== 'default'))
    for (const { source, field, format, isWritten } of images) {
      if (!stated.has(source)) continue
      if (isWritten ? isStated(field) : isGranted(field)) continue
      yield {
        field,
        value: format,
        reason: 'FieldValueForbidden',
        message: 'the image reaches the host, and only a ClusterVirtualMachinePreset can set a format other than raw',
        suggestion: 'ask an operator to set it in the ClusterVirtualMachinePreset that injects the image',
      }
    }
  },
  example: example(
    {
      devices: {
        disks: [{ type: 'block', driver: { type: 'qcow2' }, source: { dev: '/dev/sdx' }, target: { dev: 'vda' } }],
      },
    },
    {
      devices: {
        disks: [{ type: 'block', driver: { type: 'raw' }, source: { dev: '/dev/sdx' }, target: { dev: 'vda' } }],
      },
    },
  ),
}

const deviceOf = (path: string): string | undefined =>
  /^spec\.domain\.(?:os|devices\.disks\[\d+\])(?=\.|$)/.exec(path)?.[0]

/** These paths, and each `.source` above them. Linear in the paths' length: a user can nest thousands of images. */
function sourcesOf(paths: readonly string[]): ReadonlySet<string> {
  const sources = new Set(paths)
  for (const path of paths) {
    for (let end = path.length; end > 0;) {
      const start = path.lastIndexOf('.source', end - 1)
      const source = path.slice(0, start + '.source'.length)
      if (start < 0 || (source !== path && sources.has(source))) break
      sources.add(source)
      end = start
    }
  }
  return sources
}

/** An image: where its location and its format are stated, and the format. */
interface Image {
  readonly source: string
  readonly field: string
  readonly format: string | undefined
  /** Whether the guest can write to it. */
  readonly isWritten: boolean
}

type Disk = NonNullable<NonNullable<Domain['devices']>['disks']>[number]
type Source = NonNullable<Disk['source']>

/** Every image of the domain. A test compares the fields with all formats in the description. */
function* imagesOf({ os, devices: { disks = [] } = {} }: Domain): Generator<Image> {
  yield* firmwareImages(os ?? {}, 'spec.domain.os')
  for (const [index, { driver, source, backingStore }] of disks.entries()) {
    let path = `spec.domain.devices.disks[${index}]`
    yield { source: `${path}.source`, field: `${path}.driver.type`, format: driver?.type, isWritten: true }
    yield* dataImages(source, `${path}.source`)
    for (let image = backingStore; image !== undefined; image = image.backingStore) {
      path += '.backingStore'
      yield { source: `${path}.source`, field: `${path}.format.type`, format: image.format?.type, isWritten: true }
      yield* dataImages(image.source, `${path}.source`)
    }
  }
}

function* firmwareImages({ loader, nvram }: NonNullable<Domain['os']>, path: string): Generator<Image> {
  const store = { field: `${path}.nvram.format`, format: nvram?.format, isWritten: true }
  yield { source: `${path}.loader.value`, field: `${path}.loader.format`, format: loader?.format, isWritten: false }
  yield {
    source: `${path}.nvram.template`,
    field: `${path}.nvram.templateFormat`,
    format: nvram?.templateFormat,
    isWritten: false,
  }
  yield { source: `${path}.nvram.value`, ...store }
  yield { source: `${path}.nvram.source`, ...store }
  yield* dataImages(nvram?.source, `${path}.nvram.source`)
}

/** The data file of an image, and data files of data files. */
function* dataImages(given: Source | undefined, above: string): Generator<Image> {
  let path = above
  for (let source = given; source?.dataStore !== undefined; source = source.dataStore.source) {
    const { format } = source.dataStore
    yield {
      source: `${path}.dataStore.source`,
      field: `${path}.dataStore.format.type`,
      format: format?.type,
      isWritten: true,
    }
    path += '.dataStore.source'
  }
}
