import { describe, expect, it } from 'vitest'
import { findCondition, setCondition } from './condition.ts'

const ready = { type: 'Ready', status: 'True', reason: 'Running', message: '', observedGeneration: 1 } as const
const at = (second: number) => `2030-01-01T00:00:0${second}Z`

describe('conditions', () => {
  const before = setCondition(undefined, ready, at(1))

  it('appends a new condition with the current time', () => {
    expect(setCondition(before, { ...ready, type: 'Other' }, at(2))).toEqual([
      { ...ready, lastTransitionTime: at(1) },
      { ...ready, type: 'Other', lastTransitionTime: at(2) },
    ])
  })

  it('returns the same array without a change', () => {
    expect(setCondition(before, ready, at(2))).toBe(before)
  })

  it.each([
    ['another reason', { reason: 'Other' }, at(1)],
    ['another message', { message: 'm' }, at(1)],
    ['another generation', { observedGeneration: 2 }, at(1)],
    ['another status', { status: 'False' as const }, at(2)],
  ])('%s keeps or moves the transition time', (_name, change, lastTransitionTime) => {
    expect(setCondition(before, { ...ready, ...change }, at(2))).toEqual([{ ...ready, ...change, lastTransitionTime }])
  })

  it('shortens a message that is too long, and is unchanged the next time', () => {
    const long = { ...ready, message: 'x'.repeat(4097) }
    const after = setCondition(before, long, at(2))
    expect(after[0]?.message).toBe(`${'x'.repeat(4093)}…`)
    expect(setCondition(after, long, at(3))).toBe(after)
  })

  it('has no escape sequences or further lines in its message, and is unchanged the next time', () => {
    const hostile = { ...ready, message: '\u001b[31mx\n  Status:  True\n\u202ey\n' }
    const after = setCondition(before, hostile, at(2))
    expect(after[0]?.message).toBe('\ufffd[31mx; Status:  True; \ufffdy')
    expect(setCondition(after, hostile, at(3))).toBe(after)
  })

  it('shortens a message whose line breaks take more bytes in one line', () => {
    const { message = '' } = setCondition(before, { ...ready, message: 'x\n'.repeat(2048) }, at(2))[0] ?? {}
    expect([Buffer.byteLength(message), message.slice(0, 8), message.at(-1)]).toEqual([4096, 'x; x; x;', '…'])
  })

  it('ends in an ellipsis if it was shortened, also if the rest without indentation is short', () => {
    const message = 'x\n        '.repeat(600)
    const [after] = setCondition(before, { ...ready, message }, at(2))
    expect(after?.message.slice(-8)).toBe(' x; x; …')
    expect(setCondition([after!], { ...ready, message: after!.message }, at(2))[0]).toBe(after)
  })

  it('finds by type', () => {
    expect(findCondition(before, 'Ready')?.reason).toBe('Running')
    expect(findCondition(undefined, 'Ready')).toBeUndefined()
  })
})
