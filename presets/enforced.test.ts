import fc from 'fast-check'
import { expect, test } from 'vitest'
import { clusterPreset, injectSmall, preset, vmWith } from '../test/presets/make.ts'
import { smallStructure } from '../test/presets/small-domain.ts'
import { checkRemoves } from './check.ts'
import { duplicateCauses } from './duplicates.ts'

/** Few values and keys, so that the VM and its presets often mean the same item. */
const pick = <T>(...values: T[]) => fc.constantFrom(...values)
const some = <T>(fields: { [key: string]: fc.Arbitrary<T> }) => fc.record(fields, { requiredKeys: [] })

const host = some<unknown>({ name: pick('good', 'evil'), port: pick(1, 2) })
const source = fc.oneof(
  fc.record({ volume: pick('data', 'logs') }),
  fc.record({ name: fc.constant('n'), host }),
  fc.record({ name: fc.constant('n'), hosts: fc.array(host, { minLength: 1, maxLength: 2 }) }),
)

const disk = (devs: readonly string[]) =>
  fc
    .tuple(
      fc.constantFrom(...devs),
      fc.option(source, { nil: undefined }),
      some<unknown>({
        driver: some({ cache: pick('none', 'unsafe'), io: pick('native', 'threads') }),
        readonly: fc.constant({}),
        serial: pick('a', 'b'),
      }),
    )
    .map(([dev, from, rest]) => ({
      ...(from === undefined ? {} : { type: 'volume' in from ? 'volume' : 'network', source: from }),
      target: { dev },
      ...rest,
    }))

/** Each with keys of its own. */
const interfaces = (aliases: readonly string[]) =>
  fc
    .record({
      names: fc.shuffledSubarray([...aliases, undefined], { minLength: 2, maxLength: 2 }),
      addresses: fc.shuffledSubarray([undefined, undefined, '52:54:00:00:00:01', '52:54:00:00:00:0a'], {
        minLength: 2,
        maxLength: 2,
      }),
      models: fc.array(pick('virtio', 'e1000', undefined), { maxLength: 2 }),
    })
    .map(({ names, addresses, models }) =>
      models.map((type, index) => ({
        ...(names[index] === undefined ? {} : { alias: { name: names[index] } }),
        ...(addresses[index] === undefined ? {} : { mac: { address: addresses[index] } }),
        ...(type === undefined ? {} : { model: { type } }),
      })),
    )

const domain = (devs: readonly string[], aliases: readonly string[]) =>
  some<unknown>({
    title: pick('a', 'b'),
    memory: pick({ unit: 'KiB', value: 1024 }, { unit: 'MiB', value: 1 }, { unit: 'MiB', value: 2 }),
    clock: some({
      timers: fc.uniqueArray(
        fc.record({ name: pick('hpet', 'rtc'), present: pick(true, false) }, { requiredKeys: ['name'] }),
        { selector: (timer) => timer.name },
      ),
    }),
    devices: some<unknown>({
      disks: fc.uniqueArray(disk(devs), { maxLength: 2, selector: ({ target }) => target.dev }),
      interfaces: interfaces(aliases),
      serials: fc.array(some({ type: pick('pty', 'tcp'), log: pick('a', 'b') }), { maxLength: 2 }),
      videos: fc.array(
        fc.record({ model: some<unknown>({ type: pick('vga', 'qxl'), vram: pick<number | string>(1, '1') }) }),
        {
          maxLength: 1,
        },
      ),
    }),
  })

const ofUser = domain(['vda', 'vdb'], ['ua-a', 'ua-b'])
const ofPreset = domain(['vda', 'vdb', '*'], ['ua-a', 'ua-b', '*'])

const volumes = fc.uniqueArray(
  fc.record({ name: pick('data', 'logs'), emptyDisk: fc.record({ capacity: pick('1Gi', '2Gi') }) }),
  { maxLength: 2, selector: (volume) => volume.name },
)

const at = (list: string, matches: readonly string[], fields: readonly string[]) =>
  fc
    .tuple(fc.constantFrom(...matches), fc.constantFrom('', ...fields.map((field) => `.${field}`)))
    .map(([match, field]) => `domain.devices.${list}[${match}]${field}`)

/** @param places also indexes. Those of the VM as sent are others than those of the result. */
const removed = (...places: string[]) =>
  fc.oneof(
    at(
      'disks',
      ['target.dev=vda', 'target.dev=vdb', 'type=volume', 'source.host.name=evil', ...places],
      ['type', 'source', 'source.host', 'source.hosts', 'source.hosts[name=evil]', 'source.volume', 'driver', 'target'],
    ),
    at(
      'interfaces',
      ['alias.name=ua-a', 'mac.address=52:54:00:00:00:01', 'model.type=e1000', ...places],
      ['alias', 'mac', 'model'],
    ),
    at('serials', ['type=pty', ...places], ['type', 'log']),
    pick('domain.title', 'domain.clock', 'domain.devices', 'domain.devices.disks', 'domain.devices.interfaces'),
    pick('volumes', 'volumes[name=data]', 'volumes[name=logs].emptyDisk'),
  )

const weaker = fc.array(
  fc.tuple(
    fc.boolean(),
    fc.oneof(
      fc.record({ domain: ofPreset, volumes }, { requiredKeys: [] }),
      fc.record({
        strength: fc.constant('Enforce' as const),
        remove: fc.array(removed('0', '1'), { minLength: 1, maxLength: 2 }),
      }),
      fc.record({ strength: fc.constant('Enforce' as const), domain: ofPreset }),
    ),
  ),
  { maxLength: 3 },
)

const strongest = fc.record(
  { domain: ofPreset, volumes, remove: fc.array(removed(), { maxLength: 1 }) },
  { requiredKeys: [] },
)

/** Whether a preset of strength Enforce is not refused when it is written. */
function isAccepted({ remove = [], ...content }: { readonly remove?: string[]; readonly domain?: unknown }): boolean {
  const structure = smallStructure.field('spec')
  const removes = { content, structure, whole: ['domain'], example: 'domain.title' }
  return (
    [
      ...checkRemoves({ selector: {}, strength: 'Enforce', remove }, removes),
      ...duplicateCauses(structure, content, 'spec'),
    ].length === 0
  )
}

/** The documentation of `strength: Enforce` promises it, whatever users and weaker presets state and remove. */
test('what the strongest preset of the cluster enforces is true of the result', () => {
  const tally = { accepted: 0, removing: 0 }
  fc.assert(
    fc.property(ofUser, volumes, strongest, weaker, (given, ownVolumes, spec, others) => {
      if (![spec, ...others.map(([, one]) => one)].every(isAccepted)) return
      const enforced = clusterPreset('strongest', { strength: 'Enforce', priority: 1, ...spec })
      // Presets of one priority would be in conflict most of the time.
      const presets = others.map(([isCluster, one], index) =>
        (isCluster ? clusterPreset : preset)(`p${index}`, { priority: -index, ...one }),
      )
      const sent = vmWith(given, { spec: ownVolumes.length === 0 ? {} : { volumes: ownVolumes } })
      const { vm, causes, removed: gone } = injectSmall(sent, [enforced, ...presets])
      // Two items with one key, such as one MAC address, are the user's or another preset's mistake.
      const isAmbiguous = duplicateCauses(smallStructure.field('spec'), vm.spec, 'spec').length > 0
      if (causes.length > 0 || isAmbiguous) return
      tally.accepted += 1
      if (gone.size > 0) tally.removing += 1
      const again = injectSmall(vm, [enforced])
      expect({ spec: again.vm.spec, causes: again.causes }).toEqual({ spec: vm.spec, causes: [] })
    }),
    { numRuns: 1000 },
  )
  // Otherwise the property would be empty.
  expect(tally.accepted).toBeGreaterThan(500)
  expect(tally.removing).toBeGreaterThan(100)
})
