import type { Domain } from '../../api/domain/domain.ts'
import { numberOf } from '../defaults/reading.ts'
import { list, type DeviceOf } from './device.ts'
import { duplicate, forbidden, invalid, notFound, required } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

const disk = (more: DeviceOf<'disks'>): Domain => ({
  devices: { disks: [{ type: 'file', source: { file: '/disk.img' }, target: { dev: 'vda' }, ...more }] },
})

/** Limits that add up what two others limit one by one. */
const totals = [
  ['totalBytesSec', 'readBytesSec', 'writeBytesSec'],
  ['totalIopsSec', 'readIopsSec', 'writeIopsSec'],
  ['totalBytesSecMax', 'readBytesSecMax', 'writeBytesSecMax'],
  ['totalIopsSecMax', 'readIopsSecMax', 'writeIopsSecMax'],
] as const

/** QEMU's own limit of a limit. */
const maxThrottle = 1_000_000_000_000_000

type Limits = { readonly [key in (typeof totals)[number][number] | 'sizeIopsSec']?: number | string }

function* checkLimits(limits: Limits, field: string): Iterable<Finding> {
  for (const [total, ...parts] of totals) {
    if ((numberOf(limits[total]) ?? 0) === 0) continue
    const part = parts.find((key) => (numberOf(limits[key]) ?? 0) !== 0)
    if (part !== undefined)
      yield forbidden(`${field}.${part}`, limits[part], `may not be given beside ${total}, which limits both ways`)
  }
  for (const key of [...totals.flat(), 'sizeIopsSec'] as const) {
    const value = numberOf(limits[key]) ?? 0
    if (value > maxThrottle) yield invalid(`${field}.${key}`, value, `must be at most ${maxThrottle}, QEMU's limit`)
  }
}

const throttleLimits: Rule = {
  id: 'disk-limits',
  description: 'A limit for reading and writing together stands alone, and none is beyond what QEMU counts.',
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

/** The same limits, whatever the order in which they stand. */
const sameLimits = (iotune: object): string =>
  JSON.stringify(Object.entries(iotune).toSorted(([one], [other]) => (one < other ? -1 : 1)))

const throttleShared: Rule = {
  id: 'disk-limits-shared',
  description: 'Disks that share limits by `groupName` have the same limits; a name of a group is no limit.',
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
        yield required(`${at}.totalBytesSec`, 'or another limit must be given beside groupName')
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
    'Throttle groups are named once; a disk is in groups that there are, once in each, instead of limits of its own.',
  about: ['throttlefilters', 'throttlegroups'],
  *check({ domain }) {
    const names = new Set<string>()
    for (const [index, { groupName }] of (domain.throttlegroups?.throttlegroups ?? []).entries()) {
      const field = `spec.domain.throttlegroups.throttlegroups[${index}].groupName`
      if (groupName !== undefined && names.has(groupName)) yield duplicate(field, groupName, 'is named twice')
      if (groupName !== undefined) names.add(groupName)
    }
    for (const [index, { iotune, throttlefilters, device }] of list(domain, 'disks').entries()) {
      const at = `spec.domain.devices.disks[${index}]`
      const filters = throttlefilters?.throttlefilters ?? []
      if (filters.length > 0 && iotune)
        yield forbidden(`${at}.iotune`, undefined, 'may not be given beside throttlefilters')
      if (filters.length > 0 && device === 'cdrom')
        yield forbidden(`${at}.throttlefilters`, undefined, 'may not be given for device cdrom')
      const seen = new Set<string>()
      for (const [place, { group = '' }] of filters.entries()) {
        const field = `${at}.throttlefilters.throttlefilters[${place}].group`
        if (!names.has(group)) yield notFound(field, group, 'is no group of throttlegroups')
        else if (seen.has(group)) yield duplicate(field, group, 'is named twice')
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
