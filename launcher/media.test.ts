import { beforeEach, expect, test } from 'vitest'
import { createLogger } from '../runtime/log.ts'
import { type FakeClock, fakeClock, settle } from '../test/fake-clock.ts'
import type { DomainRef } from './libvirt/domain.ts'
import { ConnectionLost, LibvirtError } from './libvirt/errors.ts'
import { type Disk, Media } from './media.ts'
import { Refused } from './refused.ts'

const dom: DomainRef = { name: 'vm', uuid: new Uint8Array(16), id: 1 }
const disk: Disk = { device: 'disk', type: 'file', source: { file: '/root' }, target: { dev: 'vda' } }
const cd = (file?: string): Disk => ({
  device: 'cdrom',
  type: 'file',
  ...(file === undefined ? {} : { source: { file } }),
  target: { dev: 'sda' },
})

let clock: FakeClock
let media: Media
let updates: (string | undefined)[]
let answers: (Error | undefined)[]
let changes: number
let isOpen: boolean
/** While set, the next update waits for it. */
let gate: Promise<void> | undefined

beforeEach(() => {
  clock = fakeClock()
  updates = []
  answers = []
  changes = 0
  isOpen = false
  gate = undefined
  media = new Media({
    update: async (_, { source }) => {
      updates.push(source?.file)
      await gate
      const answer = answers.shift()
      if (answer !== undefined) throw answer
    },
    isOpen: async () => isOpen,
    clock,
    log: createLogger({ process: 'launcher', level: 'silent' }),
    onChange: () => (changes += 1),
  })
  media.start(1, [disk, cd('/one')])
})

const change = async (generation: number, ...disks: readonly Disk[]) => {
  media.change(dom, generation, () => disks)
  await settle()
}

test('only a drive with another medium is changed', async () => {
  expect(media.report).toEqual({ generation: 1 })
  await change(2, disk, cd('/two'))
  await change(3, { ...disk, source: { file: '/other' } }, cd('/two'))
  await change(4, disk, cd())
  expect(updates).toEqual(['/two', undefined])
  expect(media.report).toEqual({ generation: 4 })
  expect(changes).toBe(3)
})

test('what libvirt refuses is reported, and tried again until the guest unlocks its tray', async () => {
  const locked = new LibvirtError('tray is locked', 1, 10)
  answers = [locked, locked]
  await change(2, disk, cd('/two'))
  expect(media.report).toEqual({ generation: 2, mediaFailure: 'sda: tray is locked' })
  await clock.advance(15_000)
  expect(media.report).toEqual({ generation: 2, mediaFailure: 'sda: tray is locked' })
  await clock.advance(15_000)
  expect(media.report).toEqual({ generation: 2 })
  await clock.advance(60_000)
  expect(updates).toEqual(['/two', '/two', '/two'])
})

test('a tray that stays locked is tried at one interval, however often the medium was changed', async () => {
  answers = Array.from({ length: 100 }, () => new LibvirtError('tray is locked', 1, 10))
  for (let generation = 2; generation < 12; generation++) {
    await change(generation, disk, cd(`/${generation}`))
    await clock.advance(1000)
  }
  expect(updates).toHaveLength(10)
  await clock.advance(14_000)
  expect(updates).toHaveLength(11)
  for (let minute = 0; minute < 4; minute++) await clock.advance(15_000)
  expect(updates).toHaveLength(15)
})

test('if libvirtd is lost, the change is repeated', async () => {
  answers = [new ConnectionLost('libvirtd is gone')]
  await change(2, disk, cd('/two'))
  expect(media.report).toEqual({ generation: 1 })
  await clock.advance(15_000)
  expect(media.report).toEqual({ generation: 2 })
  expect(updates).toEqual(['/two', '/two'])
})

test('a change whose response was lost is taken back if the user wants that', async () => {
  answers = [new ConnectionLost('libvirtd is gone')]
  await change(2, disk, cd('/two'))
  await change(3, disk, cd('/one'))
  expect([updates, media.report]).toEqual([['/two', '/one'], { generation: 3 }])
})

test('a medium that was taken out for one that cannot be opened is inserted again if the user wants that', async () => {
  answers = [new LibvirtError('Failed to get shared "write" lock', 1, 10)]
  await change(2, disk, cd('/two'))
  isOpen = true
  await change(3, disk, cd('/one'))
  expect([updates, media.report]).toEqual([['/two', undefined, '/one'], { generation: 3 }])
})

test('a medium that was not taken out is not taken out to be inserted again', async () => {
  answers = [new LibvirtError('tray is locked', 1, 10)]
  await change(2, disk, cd('/two'))
  await change(3, disk, cd('/one'))
  expect([updates, media.report]).toEqual([['/two', '/one'], { generation: 3 }])
})

test('a later generation replaces one that fails, and is not mixed with one that is being applied', async () => {
  answers = [new LibvirtError('no such file', 1, 10)]
  await change(2, disk, cd('/two'))
  const { promise, resolve } = Promise.withResolvers<void>()
  gate = promise
  await change(3, disk, cd('/three'))
  await change(4, disk, cd('/four'))
  expect(media.isLater(4)).toBe(false)
  expect(media.isLater(5)).toBe(true)
  expect(updates).toEqual(['/two', '/three'])
  resolve()
  await settle()
  await clock.advance(15_000)
  expect(updates).toEqual(['/two', '/three', '/four'])
  expect(media.report).toEqual({ generation: 4 })
})

test('a volume that is not there is reported', async () => {
  media.change(dom, 2, () => {
    throw new Refused('DefineRefused', 'spec.volumes has no "x"')
  })
  await settle()
  expect(media.report).toEqual({ generation: 2, mediaFailure: 'spec.volumes has no "x"' })
  expect(updates).toEqual([])
})
