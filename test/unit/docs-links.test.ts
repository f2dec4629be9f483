import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'

const root = join(import.meta.dirname, '../..')
const pages = globSync(['*.md', 'docs/**/*.md', 'manifests/**/*.md'], { cwd: root })
const read = (page: string) => readFileSync(join(root, page), 'utf8')

/** The anchors that GitHub gives to the headings of a page. */
const anchorsOf = (text: string): readonly string[] =>
  [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )

/** Links within the repository that lead nowhere. */
function brokenLinks(page: string): readonly string[] {
  const links = [...read(page).matchAll(/\]\(([^()\s]+)\)/g)].map(([, link = '']) => link)
  return links.filter((link) => {
    if (/^[a-z]+:/.test(link)) return false
    const [path = '', anchor] = link.split('#')
    const target = path === '' ? page : join(dirname(page), path)
    if (!existsSync(join(root, target))) return true
    return anchor !== undefined && !anchorsOf(read(target)).includes(anchor)
  })
}

describe('every link within the repository exists', () => {
  test.each(pages.map((page) => [page]))('%s', (page) => expect(brokenLinks(page)).toEqual([]))
})

test('every page of docs/ can be reached from README.md', () => {
  const reached = new Set<string>()
  const visit = (page: string): void => {
    if (reached.has(page) || !page.endsWith('.md')) return
    reached.add(page)
    for (const [, link = ''] of read(page).matchAll(/\]\(([^()\s#]+)(?:#[^()\s]*)?\)/g))
      if (!/^[a-z]+:/.test(link) && existsSync(join(root, dirname(page), link))) visit(join(dirname(page), link))
  }
  visit('README.md')
  const unreachable = pages.filter((page) => page.startsWith('docs/') && !reached.has(page))
  // The README links these two folders as a whole.
  expect(unreachable.filter((page) => !/^docs\/(decisions|reference)\//.test(page))).toEqual([])
})
