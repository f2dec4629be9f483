import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { testContext } from '../../test/applied.ts'
import { applyRules, addedPaths } from './apply.ts'
import { append, fill, rule, type Rule } from './rule.ts'

const apply = (domain: Domain, ...rules: Rule[]): { domain: Domain; added: [string, string][] } => {
  const { domain: result, added } = applyRules(rules, domain, testContext)
  return { domain: result, added: [...addedPaths(added, result)] }
}

test('a rule fills in missing values, leaf by leaf, which are recorded under its name', () => {
  const values = rule('r', '', () => ({ name: 'n', memory: { unit: 'KiB', value: 1 } }))
  expect(apply({ memory: { value: 2 } }, values)).toEqual({
    domain: { name: 'n', memory: { unit: 'KiB', value: 2 } },
    added: [
      ['memory.unit', 'r'],
      ['name', 'r'],
    ],
  })
})

test('an empty text is filled in; undefined adds nothing', () => {
  expect(
    apply(
      { genid: '' },
      rule('r', '', () => ({ genid: 'g', title: undefined })),
    ),
  ).toEqual({
    domain: { genid: 'g' },
    added: [['genid', 'r']],
  })
})

test('adds devices after existing ones, and records an object that was added empty and then filled once', () => {
  const devices: NonNullable<Domain['devices']> = { videos: [{ model: { type: 'vga' } }] }
  const video: Rule = {
    name: 'video',
    description: '',
    apply: (domain) => (domain.devices ? [append(domain.devices, 'videos', {})] : []),
  }
  const model: Rule = {
    name: 'model',
    description: '',
    apply: ({ devices: { videos = [] } = {} }) => videos.map((one) => fill(one, { model: { type: 'qxl' } })),
  }
  expect(apply({ devices }, video, model)).toEqual({
    domain: { devices: { videos: [{ model: { type: 'vga' } }, { model: { type: 'qxl' } }] } },
    added: [['devices.videos[1].model.type', 'model']],
  })
})

test('a rule sees the additions of earlier rules, and a generator its own', () => {
  const seen: unknown[] = []
  const first = rule('first', '', () => ({ title: 'a' }))
  const second: Rule = {
    name: 'second',
    description: '',
    *apply(domain) {
      seen.push(domain.title)
      yield fill(domain, { description: 'b' })
      seen.push(domain.description)
    },
  }
  apply({}, first, second)
  expect(seen).toEqual(['a', 'b'])
})
