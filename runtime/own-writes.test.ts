import { describe, expect, it } from 'vitest'
import { createOwnWrites } from './own-writes.ts'

const object = (resourceVersion: string, uid = 'u') => ({
  metadata: { namespace: 'n', name: 'a', uid, resourceVersion },
})

describe('own writes', () => {
  it('are newer than a cache that has not seen them, and forgotten when it has', () => {
    const writes = createOwnWrites()
    writes.note(object('10'))
    expect(writes.newest(object('9'))).toEqual(object('10'))
    expect(writes.newest(object('10'))).toEqual(object('10'))
    expect(writes.size).toBe(0)
    expect(writes.newest(object('9'))).toEqual(object('9'))
  })

  it('of another object by the name mean nothing', () => {
    const writes = createOwnWrites()
    writes.note(object('10'))
    expect(writes.newest(object('9', 'other'))).toEqual(object('9', 'other'))
    expect(writes.size).toBe(0)
  })

  it('can be forgotten', () => {
    const writes = createOwnWrites()
    writes.note(object('10'))
    writes.forget({ namespace: 'n', name: 'a' })
    expect(writes.size).toBe(0)
  })
})
