import { describe, expect, it } from 'vitest'
import { createLogger, isLogLevel, logLevelOf } from './log.ts'

describe('log', () => {
  it('writes lines of JSON with words for levels, and errors with their causes', () => {
    const lines: string[] = []
    const log = createLogger({ process: 'controller', to: { write: (line) => void lines.push(line) } })
    log.debug('not this')
    log.warn({ err: new Error('outer', { cause: new Error('inner') }) }, 'failed')
    expect(lines.map((line): unknown => JSON.parse(line))).toEqual([
      {
        level: 'warn',
        time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        process: 'controller',
        err: { type: 'Error', message: 'outer: inner', stack: expect.stringContaining('caused by: Error: inner') },
        msg: 'failed',
      },
    ])
  })

  it('cuts texts and lists of a line that is too long, whatever an error contains', () => {
    const lines: string[] = []
    const log = createLogger({ process: 'handler', to: { write: (line) => void lines.push(line) } })
    const text = '\uFFFD'.repeat(64 * 1024)
    const err = Object.assign(new Error(text), {
      status: { message: text, causes: Array.from({ length: 20 }, () => text) },
    })
    log.info({ err, vm: 'default/vm' }, 'the launcher refused')
    const [line = ''] = lines
    expect(line.length).toBeLessThan(64 * 1024)
    expect(line.endsWith('\n')).toBe(true)
    expect(JSON.parse(line)).toMatchObject({
      level: 'info',
      err: { type: 'Error', message: `${'\uFFFD'.repeat(2047)}…` },
      vm: 'default/vm',
      msg: 'the launcher refused',
    })
  })

  it('knows its levels', () => {
    expect(['trace', 'info', 'silent', 'loud', ''].map(isLogLevel)).toEqual([true, true, true, false, false])
    expect(['debug', 'loud', undefined].map((word) => logLevelOf(word))).toEqual(['debug', 'info', 'info'])
  })
})
