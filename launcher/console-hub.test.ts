import { once } from 'node:events'
import { type Duplex, duplexPair } from 'node:stream'
import { expect, test } from 'vitest'
import { createLogger } from '../runtime/log.ts'
import { consolePastBytes, sessionsPerVm, type ConsoleTarget } from '../runtime/session-api.ts'
import { fakeClock, settle } from '../test/fake-clock.ts'
import { ConsoleHub, maxLagBytes } from './console-hub.ts'
import { Refused } from './refused.ts'

const live: ConsoleTarget = { kind: 'console', isFollowing: true }
const withPast = (tailBytes = consolePastBytes): ConsoleTarget => ({ ...live, tailBytes })

/** A hub whose console is open, with the guest's end of it. */
async function start({ isFailed = false } = {}) {
  const clock = fakeClock()
  const guests: Duplex[] = []
  const fail: { next: Error | undefined } = { next: undefined }
  const opening: { next: Promise<void> } = { next: Promise.resolve() }
  const open = async () => {
    await opening.next
    if (fail.next !== undefined) throw fail.next
    const [ours, theirs] = duplexPair()
    guests.push(theirs)
    if (isFailed) await once(ours.destroy(), 'close')
    return ours
  }
  const hub = new ConsoleHub({ open, clock, log: createLogger({ process: 'test', level: 'silent' }) })
  await hub.start()
  await settle()
  const print = async (text: string) => {
    guests.at(-1)?.write(text)
    await clock.advance(10)
  }
  const join = async (target: ConsoleTarget = live) => {
    const session = await hub.join(target)
    const [theirs, ours] = duplexPair()
    const reader = { position: session.position, socket: ours, text: '', chunks: 0, hasEnded: false }
    ours.on('data', (chunk: Buffer) => {
      reader.text += chunk.toString('latin1')
      reader.chunks++
    })
    ours.on('end', () => (reader.hasEnded = true))
    session.start(theirs)
    await settle()
    return reader
  }
  return { clock, hub, guests, print, join, fail, opening }
}

test('a session gets the past that it asks for, and what follows', async () => {
  const { print, join } = await start()
  await print('booting\n')
  const [all, some, none] = [await join(withPast()), await join(withPast(3)), await join()]
  await print('login: ')
  expect([all.text, some.text, none.text]).toEqual(['booting\nlogin: ', 'ng\nlogin: ', 'login: '])
  expect([all, some, none].map(({ position }) => position.offset)).toEqual([0, 5, 8])
})

test('a session continues after its position, and begins with the oldest bytes if the position is gone', async () => {
  const { print, join } = await start()
  await print('abc')
  const { position } = await join()
  await print('def')
  const after = (offset: number, epoch = position.epoch) => join({ ...live, after: { epoch, offset } })
  expect((await after(3)).text).toBe('def')
  expect((await after(6)).text).toBe('')
  expect((await after(7)).text).toBe('abcdef')
  expect((await after(3, '00000000')).text).toBe('abcdef')
  await print('x'.repeat(consolePastBytes))
  const late = await after(3)
  expect([late.position.offset, late.text.length]).toEqual([6, consolePastBytes])
})

test('everything that any session types reaches the guest', async () => {
  const { guests, join } = await start()
  const typed: string[] = []
  guests[0]?.on('data', (chunk: Buffer) => typed.push(chunk.toString()))
  const [one, other] = [await join(), await join()]
  one.socket.write('a')
  await settle()
  other.socket.write('b')
  await settle()
  expect(typed.join('')).toBe('ab')
})

test('without following, a session ends with the past', async () => {
  const { print, join } = await start()
  await print('abc')
  const log = await join({ kind: 'console', tailBytes: 2, isFollowing: false })
  expect([log.text, log.hasEnded]).toEqual(['bc', true])
})

const marked = (isFollowing: boolean): ConsoleTarget => ({ ...withPast(), isFollowing, isEndMarked: true })

test('the end of the output is marked for a session that asks for it, and its marks are escaped', async () => {
  const { hub, guests, print, join } = await start()
  await print('a')
  guests[0]?.write(Buffer.from([0xff]))
  const [following, past, plain] = [await join(marked(true)), await join(marked(false)), await join(withPast())]
  await print('b')
  guests[0]?.end()
  void hub.end()
  await settle()
  const late = await join(marked(true))
  expect([past.text, plain.text]).toEqual(['a\xff\xff\xff\0', 'a\xffb'])
  for (const whole of [following, late]) expect(whole.text).toBe('a\xff\xffb\xff\0')
  expect([following, past, plain, late].map(({ hasEnded }) => hasEnded)).toEqual([true, true, true, true])
})

test('the end of a session that ends before the output is not marked', async () => {
  const { hub, print, join } = await start()
  const reader = await join(marked(true))
  await print('a')
  reader.socket.end()
  await settle()
  void hub.end()
  await settle()
  expect([reader.text, reader.hasEnded]).toEqual(['a', true])
})

test('single bytes of the guest are sent together, the first one at once', async () => {
  const { clock, guests, join } = await start()
  const reader = await join()
  for (const byte of 'abcdefgh') {
    guests[0]?.write(byte)
    await settle()
  }
  expect(reader.text).toBe('a')
  await clock.advance(10)
  expect([reader.text, reader.chunks]).toEqual(['abcdefgh', 2])
})

test('a session that ends gets what it was sent before, and nothing later', async () => {
  const { print, join } = await start()
  const reader = await join()
  reader.socket.pause()
  await print('before ')
  reader.socket.end()
  await settle()
  await print('after ')
  reader.socket.resume()
  await settle()
  expect([reader.text, reader.hasEnded]).toEqual(['before ', true])
})

test('a reader that lags is disconnected and stalls neither the guest nor the others', async () => {
  const { hub, print, join } = await start()
  const [slow] = duplexPair()
  const session = await hub.join(live)
  session.start(slow)
  const fast = await join()
  const written = maxLagBytes + 256 * 1024
  for (let sent = 0; sent < written; sent += 16 * 1024) await print('x'.repeat(16 * 1024))
  expect(slow.destroyed).toBe(true)
  expect(fast.text.length).toBe(written)
})

test('the number of sessions is limited, and one that ends makes room', async () => {
  const { clock, join } = await start()
  const readers = []
  for (let count = 0; count < sessionsPerVm.others; count++) readers.push(await join())
  await expect(join()).rejects.toMatchObject({ reason: 'TooManySessions' })
  readers[0]?.socket.end()
  await clock.advance(1)
  expect((await join()).hasEnded).toBe(false)
})

test('one that only reads the past is not counted', async () => {
  const { hub, join, print } = await start()
  await print('x'.repeat(200_000))
  for (let count = 0; count < sessionsPerVm.others; count++) {
    const session = await hub.join({ ...withPast(), isFollowing: false })
    // It reads nothing.
    session.start(duplexPair()[0])
  }
  expect((await join()).hasEnded).toBe(false)
})

test('a guest that does not read what is typed stops its writers, not its readers', async () => {
  const { guests, join, print } = await start()
  guests[0]?.pause()
  const writer = await join()
  let typed = 0
  while (typed < 16 * 1024 * 1024 && writer.socket.write(Buffer.alloc(65_536))) typed += 65_536
  await settle()
  expect(typed).toBeLessThan(1024 * 1024)
  await print('still printing')
  expect(writer.text).toBe('still printing')
})

test('sessions survive a console that is closed, as by a restart of libvirtd', async () => {
  const { clock, guests, print, join } = await start()
  const reader = await join()
  await print('before ')
  guests[0]?.destroy()
  guests[0]?.end()
  await clock.advance(1000)
  expect(guests.length).toBe(2)
  await print('after')
  expect([reader.text, reader.hasEnded]).toEqual(['before after', false])
})

test('what is typed while libvirtd restarts reaches the guest afterwards', async () => {
  const { clock, guests, join } = await start()
  const reader = await join()
  guests[0]?.destroy()
  await settle()
  for (const text of ['bo', 'ot']) {
    reader.socket.write(text)
    await settle()
  }
  await clock.advance(20_000)
  await settle()
  expect(guests.at(-1)?.read()?.toString()).toBe('boot')
})

test('what a session types while libvirtd restarts is dropped when the session is cut off', async () => {
  const { clock, hub, guests, join } = await start()
  const [cutOff, theirs] = duplexPair()
  const session = await hub.join(live)
  session.start(cutOff)
  const other = await join()
  guests[0]?.destroy()
  await settle()
  theirs.write('halt')
  other.socket.write('boot')
  await settle()
  cutOff.destroy()
  await clock.advance(20_000)
  await settle()
  expect(guests.at(-1)?.read()?.toString()).toBe('boot')
})

test('the last output of a guest arrives before its sessions end', async () => {
  const { clock, hub, guests, join } = await start()
  const reader = await join()
  void hub.end()
  guests[0]?.end('powering off')
  await clock.advance(10)
  expect([reader.text, reader.hasEnded]).toEqual(['powering off', true])
})

test('a session that begins after the guest has ended gets its last output, too', async () => {
  const { clock, hub, guests, join } = await start()
  void hub.end()
  const reader = await join(withPast())
  guests[0]?.end('powering off')
  await clock.advance(10)
  const late = await join(withPast())
  expect([reader.text, reader.hasEnded]).toEqual(['powering off', true])
  expect([late.text, late.hasEnded]).toEqual(['powering off', true])
})

test('the last output of a guest that ends while its console is opened again arrives', async () => {
  const { clock, hub, guests, join, opening } = await start()
  const reader = await join()
  const opened = Promise.withResolvers<void>()
  opening.next = opened.promise
  guests[0]?.destroy()
  guests[0]?.end()
  await clock.advance(500)
  void hub.end()
  await clock.advance(100)
  expect(reader.hasEnded).toBe(false)
  opened.resolve()
  await settle()
  guests[1]?.end('powering off')
  await clock.advance(10)
  expect([reader.text, reader.hasEnded]).toEqual(['powering off', true])
})

test('a console that does not open delays the end of sessions by a second at most', async () => {
  const { clock, hub, guests, join, opening } = await start()
  const reader = await join()
  opening.next = new Promise(() => {})
  guests[0]?.destroy()
  guests[0]?.end()
  await clock.advance(500)
  void hub.end()
  await clock.advance(1000)
  expect(reader.hasEnded).toBe(true)
})

test('the launcher waits until each reader has accepted the last output', async () => {
  const { clock, hub, guests, join } = await start()
  const session = await hub.join(live)
  const [ours, theirs] = duplexPair()
  session.start(theirs)
  await join()
  let canExit = false
  void hub.end().then(() => (canExit = true))
  guests[0]?.end('x'.repeat(256 * 1024))
  await clock.advance(10)
  expect(canExit).toBe(false)
  ours.resume()
  await clock.advance(10)
  expect(canExit).toBe(true)
})

test('a reader that accepts nothing delays the launcher by two seconds at most', async () => {
  const { clock, hub, guests } = await start()
  const session = await hub.join(live)
  session.start(duplexPair()[0])
  let canExit = false
  void hub.end().then(() => (canExit = true))
  guests[0]?.end('x'.repeat(256 * 1024))
  await clock.advance(1900)
  expect(canExit).toBe(false)
  await clock.advance(200)
  expect(canExit).toBe(true)
})

test('a console that failed before it was returned is opened again, and does not delay the end', async () => {
  const { clock, hub, guests } = await start({ isFailed: true })
  expect(guests.length).toBe(1)
  await clock.advance(1000)
  expect(guests.length).toBe(2)
  let canExit = false
  void hub.end().then(() => (canExit = true))
  await settle()
  expect(canExit).toBe(true)
})

test('sessions end even if libvirt does not close the console of a guest that has ended', async () => {
  const { clock, hub, join } = await start()
  const reader = await join()
  void hub.end()
  await clock.advance(1000)
  expect(reader.hasEnded).toBe(true)
})

test('without a console, a session is refused with the reason, until there is one', async () => {
  const clock = fakeClock()
  const [ours] = duplexPair()
  let attempts = 0
  const open = async () => {
    if (attempts++ === 0) throw new Error('cannot find default console device')
    return ours
  }
  const hub = new ConsoleHub({ open, clock, log: createLogger({ process: 'test', level: 'silent' }) })
  await expect(hub.join(live)).rejects.toMatchObject({ reason: 'NotReady', message: /does not run yet/ })
  void hub.start()
  await expect(hub.join(live)).rejects.toMatchObject({
    reason: 'NotReady',
    message: /cannot find default console device/,
  })
  await clock.advance(1000)
  expect((await hub.join(live)).position.offset).toBe(0)
})

test('a guest that will never have a console is asked for it once', async () => {
  const clock = fakeClock()
  let attempts = 0
  const open = async () => {
    attempts++
    throw new Refused('NotReady', 'its domain has none')
  }
  const hub = new ConsoleHub({ open, clock, log: createLogger({ process: 'test', level: 'silent' }) })
  await hub.start()
  await clock.advance(60_000)
  expect(attempts).toBe(1)
  await expect(hub.join(live)).rejects.toThrow('the VM has no serial console to connect to: its domain has none')
  void hub.end()
})

test('sessions that have not started count, and one that is cancelled makes room', async () => {
  const { hub, join } = await start()
  const joins = await Promise.allSettled(Array.from({ length: sessionsPerVm.others + 2 }, () => hub.join(live)))
  const admitted = joins.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  expect(admitted.length).toBe(sessionsPerVm.others)
  await expect(join()).rejects.toMatchObject({ reason: 'TooManySessions' })
  admitted[0]?.cancel()
  admitted[1]?.start(duplexPair()[0])
  await join()
  await expect(join()).rejects.toMatchObject({ reason: 'TooManySessions' })
})
