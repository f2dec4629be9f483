import type { Domain } from '../../api/domain/domain.ts'
import { eachDevice, list, type DeviceOf } from './device.ts'
import { duplicate, forbidden, invalid, required, tooMany, unsupported } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

const input = (more: DeviceOf<'inputs'>): Domain => ({ devices: { inputs: [more] } })

export const inputDevice = eachDevice('inputs')(
  'input',
  'A tablet is not on PS/2; models are for virtio, and of mice, tablets and keyboards there is only the plain one.',
  ({ type, bus, model, source, driver }, at, { domain, originOf }) => {
    const findings: Finding[] = []
    if (type === undefined) return [required(`${at}.type`, 'must be given, e.g. tablet')]
    if (bus === 'ps2' && type !== 'mouse' && type !== 'keyboard') {
      findings.push(invalid(`${at}.bus`, bus, `is for mouse and keyboard only, not for ${type}`, 'did you mean "usb"?'))
    }
    if (bus === 'ps2' && domain.features?.ps2?.state === false && originOf(`${at}.type`).by !== 'default') {
      findings.push(invalid(`${at}.bus`, bus, 'is switched off: features.ps2.state'))
    }
    if (type === 'passthrough' && bus !== undefined && bus !== 'virtio')
      findings.push(invalid(`${at}.bus`, bus, 'must be virtio for passthrough'))
    if (model !== undefined && bus !== 'virtio')
      findings.push(forbidden(`${at}.model`, model, `may be given for bus virtio only, not for ${bus}`))
    else if (model !== undefined && model !== 'virtio' && type !== 'passthrough') {
      findings.push(unsupported(`${at}.model`, model, `must be virtio for type ${type}`))
    }
    if (driver !== undefined && bus !== 'virtio')
      findings.push(forbidden(`${at}.driver`, undefined, 'may be given for bus virtio only'))
    if (type === 'passthrough' && source?.evdev === undefined)
      findings.push(required(`${at}.source.evdev`, 'must be given for type passthrough'))
    if (type === 'evdev' && source?.dev === undefined)
      findings.push(required(`${at}.source.dev`, 'must be given for type evdev'))
    return findings
  },
  example(
    input({ type: 'keyboard', bus: 'virtio', model: 'virtio-transitional' }),
    input({ type: 'keyboard', bus: 'virtio', model: 'virtio' }),
  ),
)

export const filesystem = eachDevice('filesystems')(
  'filesystem',
  'A file system has a target, and options of the way in which it is shared.',
  ({ driver, target, source, accessmode, fmode, dmode, binary }, at) => {
    const findings: Finding[] = []
    const type = driver?.type
    if (target?.dir === undefined && source?.socket === undefined)
      findings.push(required(`${at}.target.dir`, 'must be given: the tag by which the guest mounts it'))
    if (type === 'loop' || type === 'nbd')
      findings.push(unsupported(`${at}.driver.type`, type, 'is no way in which QEMU shares files'))
    if (type === 'virtiofs') {
      if (accessmode !== undefined && accessmode !== 'passthrough')
        findings.push(invalid(`${at}.accessmode`, accessmode, 'must be passthrough for virtiofs'))
      if (driver?.wrpolicy !== undefined)
        findings.push(forbidden(`${at}.driver.wrpolicy`, driver.wrpolicy, 'may not be given for virtiofs'))
    } else {
      if (driver?.queue !== undefined)
        findings.push(forbidden(`${at}.driver.queue`, driver.queue, 'may be given for virtiofs only'))
      if (binary !== undefined) findings.push(forbidden(`${at}.binary`, undefined, 'may be given for virtiofs only'))
    }
    for (const [key, value] of Object.entries({ fmode, dmode })) {
      if (value !== undefined && accessmode !== 'mapped')
        findings.push(forbidden(`${at}.${key}`, value, 'may be given with accessmode mapped only'))
    }
    return findings
  },
  example(
    { devices: { filesystems: [{ source: { dir: '/d' } }] } },
    { devices: { filesystems: [{ source: { dir: '/d' }, target: { dir: 't' } }] } },
  ),
)

export const watchdogs: Rule = {
  id: 'watchdogs',
  description: 'The iTCO watchdog is part of q35, all watchdogs do the same, and the others have no PCI address.',
  *check({ domain }) {
    const [first, ...others] = list(domain, 'watchdogs')
    const machine = domain.os?.type?.machine ?? ''
    const seen = new Set<string>()
    for (const [index, { model, address }] of list(domain, 'watchdogs').entries()) {
      const at = `spec.domain.devices.watchdogs[${index}]`
      if (model !== undefined && model !== 'i6300esb' && seen.has(model))
        yield duplicate(`${at}.model`, model, 'can be there once')
      if (model !== undefined) seen.add(model)
      if (model === 'itco' && !machine.includes('q35'))
        yield invalid(`${at}.model`, model, 'is part of machine type q35 only')
      if (model !== 'i6300esb' && address?.type === 'pci')
        yield invalid(`${at}.address.type`, 'pci', `is not possible for model ${model}`)
    }
    for (const [index, { action }] of others.entries()) {
      if (action !== first?.action) {
        yield invalid(
          `spec.domain.devices.watchdogs[${index + 1}].action`,
          action,
          `must be ${first?.action}, as that of the first watchdog`,
        )
      }
    }
  },
  example: example(
    {
      devices: {
        watchdogs: [
          { model: 'i6300esb', action: 'reset' },
          { model: 'ib700', action: 'none' },
        ],
      },
    },
    {
      devices: {
        watchdogs: [
          { model: 'i6300esb', action: 'reset' },
          { model: 'ib700', action: 'reset' },
        ],
      },
    },
  ),
}

const panicAddress: { readonly [model: string]: string } = { isa: 'isa', pvpanic: 'pci' }

export const panics: Rule = {
  id: 'panics',
  description: 'There is one panic device of each model, on the bus of its model.',
  *check({ domain }) {
    const seen = new Set<string>()
    for (const [index, { model, address }] of list(domain, 'panics').entries()) {
      const at = `spec.domain.devices.panics[${index}]`
      if (model === undefined) continue
      if (seen.has(model)) yield duplicate(`${at}.model`, model, 'is there twice')
      seen.add(model)
      if (address?.type !== undefined && address.type !== panicAddress[model]) {
        yield invalid(`${at}.address.type`, address.type, `is not possible for model ${model}`)
      }
    }
  },
  example: example(
    { devices: { panics: [{ model: 'isa' }, { model: 'isa' }] } },
    { devices: { panics: [{ model: 'isa' }, { model: 'hyperv' }] } },
  ),
}

export const smartcards: Rule = {
  id: 'smartcards',
  description: 'A VM has one smart card reader, which says where the card is.',
  *check({ domain }) {
    const cards = list(domain, 'smartcards')
    if (cards.length > 1)
      yield tooMany('spec.domain.devices.smartcards', cards.length, 'QEMU has one smart card reader')
    for (const [index, { mode, certificates = [] }] of cards.entries()) {
      const at = `spec.domain.devices.smartcards[${index}]`
      if (mode === undefined) yield required(`${at}.mode`, 'must be given')
      if (mode === 'host-certificates' && certificates.length !== 3) {
        yield invalid(`${at}.certificates`, certificates.length, 'must be three for mode host-certificates')
      }
    }
  },
  example: example(
    { devices: { smartcards: [{ mode: 'host' }, { mode: 'host' }] } },
    { devices: { smartcards: [{ mode: 'host' }] } },
  ),
}

export const rng = eachDevice('rngs')(
  'rng-backend',
  'A source of random numbers has a backend.',
  ({ backend, model }, at) => [
    ...(backend?.model === undefined ? [required(`${at}.backend.model`, 'must be given', 'e.g. builtin')] : []),
    ...(model === undefined ? [required(`${at}.model`, 'must be given', 'virtio')] : []),
  ],
  example(
    { devices: { rngs: [{ model: 'virtio' }] } },
    { devices: { rngs: [{ model: 'virtio', backend: { model: 'builtin' } }] } },
  ),
)

export const lease: Rule = {
  id: 'lease',
  description: 'A lease says where it is kept.',
  *check({ domain }) {
    for (const [index, { target }] of list(domain, 'leases').entries()) {
      if (target?.path === undefined)
        yield required(`spec.domain.devices.leases[${index}].target.path`, 'must be given')
    }
  },
  example: example(
    { devices: { leases: [{ lockspace: 'a', key: 'b' }] } },
    { devices: { leases: [{ lockspace: 'a', key: 'b', target: { path: '/lease' } }] } },
  ),
}

export const crypto = eachDevice('cryptos')(
  'crypto-backend',
  'A device that encrypts has a backend.',
  ({ backend }, at) =>
    backend?.model === undefined ? [required(`${at}.backend.model`, 'must be given', 'e.g. builtin')] : [],
  example(
    { devices: { cryptos: [{ model: 'virtio', type: 'qemu' }] } },
    { devices: { cryptos: [{ model: 'virtio', type: 'qemu', backend: { model: 'builtin' } }] } },
  ),
)

export const inputRules: readonly Rule[] = [inputDevice, filesystem, watchdogs, panics, smartcards, rng, lease, crypto]
