import fc from 'fast-check'
import type { Domain } from '../../api/domain/domain.ts'
import { carefulConsole, carefulSerial, characters, withViewer } from './plausible/character.ts'
import { carefulControllers, controllers } from './plausible/controller.ts'
import { carefulCpu, cpu, vcpu } from './plausible/cpu.ts'
import { carefulInput, carefulIommu, otherDevices } from './plausible/device.ts'
import { carefulDisk, disks } from './plausible/disk.ts'
import { hostdevs } from './plausible/hostdev.ts'
import { carefulInterface, interfaces } from './plausible/interface.ts'
import { carefulMemory, memories, memoryBacking, size } from './plausible/memory.ts'
import { rarely, type Parts } from './plausible/part.ts'
import { clock, features, lifecycle, os, pm } from './plausible/platform.ts'
import { carefulVideo, graphics, videos } from './plausible/screen.ts'
import { audios, sounds } from './plausible/sound.ts'

const kinds: Parts = {
  disks,
  controllers,
  interfaces,
  hostdevs,
  memories,
  graphics,
  videos,
  audios,
  sounds,
  ...characters,
  ...otherDevices,
}

/** Few kinds at a time, common ones more often, because a fault in one hides those in others. */
const devices = fc
  .tuple(
    fc.subarray(['disks', 'interfaces', 'controllers', 'serials', 'consoles', 'graphics'], { maxLength: 3 }),
    fc.subarray(Object.keys(kinds), { maxLength: 3 }),
  )
  .chain(([common, others]) =>
    fc.record(
      Object.fromEntries([...new Set([...common, ...others])].map((kind) => [kind, kinds[kind] ?? fc.constant([])])),
    ),
  )

/**
 * Domains as users might write them: a machine type, CPUs, memory, and devices of many kinds, whose parts mostly match.
 * The values come from the description, so that a new one is tested as soon as it is described. Many are short; some
 * are invalid and must be refused.
 */
export const plausibleDomains = (): fc.Arbitrary<Domain> =>
  fc
    .tuple(
      rarely(
        {
          type: fc.constantFrom('qemu', 'qemu', 'qemu', 'kvm'),
          name: fc.constant('example'),
          uuid: fc.constant('6f3c2a5e-8d1b-4c7f-9a2e-3b4d5c6e7f80'),
          memory: size,
          os,
          features,
        },
        {
          vcpu,
          currentMemory: size,
          cpu,
          clock,
          iothreads: fc.integer({ min: 0, max: 6 }),
          pm,
          memoryBacking,
          ...lifecycle,
        },
      ),
      devices,
      fc.integer({ min: 0, max: 9 }),
    )
    .map(([domain, list, carelessness]): Domain => {
      // Has the description's shape, because its words and fields come from there.
      const made = { ...domain, devices: list } as Domain
      return carelessness === 0 ? made : withCare(made)
    })

/** Without fields of other kinds of devices or machine types. */
const withCare = (domain: Domain): Domain => {
  const isQ35 = domain.os?.type?.machine?.includes('q35') === true
  const threads = Number(domain.iothreads ?? 0)
  const { controllers: buses, disks: drives, interfaces: cards, ...others } = domain.devices ?? {}
  const { consoles, serials, channels, redirdevs, smartcards, iommu, videos: screens, inputs, ...rest } = others
  const lists = {
    controllers: buses && carefulControllers(buses, isQ35),
    disks: drives?.map((one) => carefulDisk(one, threads, isQ35)),
    interfaces: cards?.map(carefulInterface),
    consoles: consoles?.map(carefulConsole),
    serials: serials?.map(carefulSerial),
    channels: channels && withViewer(channels, rest.graphics),
    redirdevs: redirdevs && withViewer(redirdevs, rest.graphics),
    smartcards: smartcards && withViewer(smartcards, rest.graphics),
    videos: screens?.map(carefulVideo),
    inputs: inputs?.map(carefulInput),
    iommu: isQ35 ? iommu && carefulIommu(iommu) : undefined,
  }
  const given = Object.fromEntries(Object.entries(lists).filter(([, list]) => list !== undefined))
  return withCarefulBoot(carefulMemory(carefulCpu({ ...domain, devices: { ...rest, ...given } })))
}

/** Single devices, or kinds of devices; output of the firmware needs a port. */
const withCarefulBoot = (domain: Domain): Domain => {
  const { devices: list = {}, os: { boots, bios, ...firmware } = {} } = domain
  const orders = new Set<unknown>()
  const bootable = <T extends { readonly boot?: { readonly order?: unknown } }>(one: T): T => {
    if (one.boot === undefined) return one
    const { boot, ...others } = one
    const isTaken = orders.has(boot.order)
    orders.add(boot.order)
    // The same domain without an optional field.
    return isTaken ? (others as T) : one
  }
  const disksOf = list.disks?.map(bootable)
  const cardsOf = list.interfaces?.map(bootable)
  return {
    ...domain,
    os: {
      ...firmware,
      ...(boots && orders.size === 0 ? { boots } : {}),
      ...(bios && (bios.useserial !== true || list.serials?.length) ? { bios } : {}),
    },
    devices: { ...list, ...(disksOf ? { disks: disksOf } : {}), ...(cardsOf ? { interfaces: cardsOf } : {}) },
  }
}
