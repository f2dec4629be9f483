import type { Domain } from '../../api/domain/domain.ts'
import { numberOf } from '../defaults/reading.ts'
import { list, type DeviceOf } from './device.ts'
import { duplicate, forbidden, invalid, notFound, required } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

const disk = (more: DeviceOf<'disks'>): Domain => ({
  devices: { disks: [{ type: 'file', source: { file: '/disk.img' }, target: { dev: 'vda' }, ...more }] },
})

/** A limit for both directions, and the limits for each direction that exclude it. */
const totals = [
  ['totalBytesSec', 'readBytesSec', 'writeBytesSec'],
  ['totalIopsSec', 'readIopsSec', 'writeIopsSec'],
  ['totalBytesSecMax', 'readBytesSecMax', 'writeBytesSecMax'],
  ['totalIopsSecMax', 'readIopsSecMax', 'writeIopsSecMax'],
] as const

/** The highest limit that QEMU supports. */
const maxThrottle = 1_000_000_000_000_000

type Limits = { readonly [key in (typeof totals)[number][number] | 'sizeIopsSec']?: number | string }

function* checkLimits(limits: Limits, field: string): Iterable<Finding> {
  for (const [total, ...parts] of totals) {
    if ((numberOf(limits[total]) ?? 0) === 0) continue
    const part = parts.find((key) => (numberOf(limits[key]) ?? 0) !== 0)
    if (part !== undefined)
      yield forbidden(
        `${field}.${part}`,
        limits[part],
        `must not be set together with ${total}, which limits both directions`,
      )
  }
  for (const key of [...totals.flat(), 'sizeIopsSec'] as const) {
    const value = numberOf(limits[key]) ?? 0
    if (value > maxThrottle)
      yield invalid(`${field}.${key}`, value, `must be at most ${maxThrottle}, the highest limit of QEMU`)
  }
}

const throttleLimits: Rule = {
  id: 'disk-limits',
  description:
    'A limit for both reading and writing excludes limits for one of them; no limit must exceed the highest of QEMU.',
  about: ['iotune', 'throttlegroups'],
  *check({ domain }) {
    for (const [index, group] of (domain.throttlegroups?.throttlegroups ?? []).entries()) {
      yield* checkLimits(group, `spec.domain.throttlegroups.throttlegroups[${index}]`)
    }
    for (const [index, { iotune }] of list(domain, 'disks').entries()) {
      if (iotune) yield* checkLimits(iotune, `spec.domain.devices.disks[${index}].iotune`)
    }
  },
  example: example(
    disk({ iotune: { totalBytesSec: 1000, readBytesSec: 500 } }),
    disk({ iotune: { writeBytesSec: 1000, readBytesSec: 500 } }),
  ),
}

/** The limits as a text that does not depend on their order. */
const sameLimits = (iotune: object): string =>
  JSON.stringify(Object.entries(iotune).toSorted(([one], [other]) => (one < other ? -1 : 1)))

const throttleShared: Rule = {
  id: 'disk-limits-shared',
  description: 'Disks that share limits by `groupName` must set the same limits; the first one must set a limit.',
  about: ['iotune'],
  *check({ domain }) {
    const groups = new Map<string, { readonly limits: string; readonly at: string }>()
    for (const [index, { iotune }] of list(domain, 'disks').entries()) {
      const { groupName } = iotune ?? {}
      if (!iotune || groupName === undefined) continue
      const at = `spec.domain.devices.disks[${index}].iotune`
      const { length } = Object.values(iotune).filter((value) => value !== groupName && numberOf(value) !== 0)
      const known = groups.get(groupName)
      if (length === 0 && !known)
        yield required(`${at}.totalBytesSec`, 'must be set together with groupName, or another limit')
      else if (length > 0 && known && known.limits !== sameLimits(iotune))
        yield invalid(`${at}.groupName`, groupName, `must have the same limits as ${known.at}`)
      else if (!known) groups.set(groupName, { limits: sameLimits(iotune), at })
    }
  },
  example: example(
    { devices: { disks: [1, 2].map((limit) => limited(limit)) } },
    { devices: { disks: [1, 2].map((limit) => ({ ...limited(1), target: { dev: `vd${'xab'.charAt(limit)}` } })) } },
  ),
}

function limited(totalBytesSec: number): DeviceOf<'disks'> {
  return {
    source: { file: '/d' },
    target: { dev: `vd${'xab'.charAt(totalBytesSec)}` },
    iotune: { totalBytesSec, groupName: 'slow' },
  }
}

const throttleFilters: Rule = {
  id: 'disk-throttle-filters',
  description:
    'Throttle groups must have different names; a disk must name existing groups, each once, and no limits of its own.',
  about: ['throttlefilters', 'throttlegroups'],
  *check({ domain }) {
    const names = new Set<string>()
    for (const [index, { groupName }] of (domain.throttlegroups?.throttlegroups ?? []).entries()) {
      const field = `spec.domain.throttlegroups.throttlegroups[${index}].groupName`
      if (groupName === undefined) continue
      if (names.has(groupName)) yield duplicate(field, groupName, 'is already the name of another group')
      names.add(groupName)
    }
    for (const [index, { iotune, throttlefilters, device }] of list(domain, 'disks').entries()) {
      const at = `spec.domain.devices.disks[${index}]`
      const filters = throttlefilters?.throttlefilters ?? []
      if (filters.length > 0 && iotune)
        yield forbidden(`${at}.iotune`, undefined, 'must not be set together with throttlefilters')
      if (filters.length > 0 && device === 'cdrom')
        yield forbidden(`${at}.throttlefilters`, undefined, 'must not be set for device cdrom')
      const seen = new Set<string>()
      for (const [place, { group = '' }] of filters.entries()) {
        const field = `${at}.throttlefilters.throttlefilters[${place}].group`
        if (!names.has(group)) yield notFound(field, group, 'no item of throttlegroups has this name')
        else if (seen.has(group)) yield duplicate(field, group, 'is listed more than once')
        seen.add(group)
      }
    }
  },
  example: example(
    { ...disk({ throttlefilters: { throttlefilters: [{ group: 'a' }] } }), throttlegroups: { throttlegroups: [] } },
    {
      ...disk({ throttlefilters: { throttlefilters: [{ group: 'a' }] } }),
      throttlegroups: { throttlegroups: [{ groupName: 'a', totalBytesSec: 1000 }] },
    },
  ),
}

export const throttleRules: readonly Rule[] = [throttleLimits, throttleShared, throttleFilters]
