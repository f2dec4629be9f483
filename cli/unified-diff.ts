import { structuredPatch } from 'diff'
import type { Paint, Style } from './paint.ts'

const styles: { readonly [mark: string]: Style } = { '+': 'green', '-': 'red' }

/** The output of `diff -u` with three lines of context; empty if the texts are equal. */
export function unifiedDiff(names: readonly [string, string], before: string, after: string, paint: Paint): string {
  const { hunks } = structuredPatch(...names, before, after, undefined, undefined, { context: 3 })
  if (hunks.length === 0) return ''
  const lines = hunks.flatMap(({ oldStart, oldLines, newStart, newLines, lines: changed }) => [
    paint('cyan', `@@ -${oldStart},${oldLines} +${newStart},${newLines} @@`),
    ...changed.map((line) => {
      const style = styles[line.slice(0, 1)]
      return style === undefined ? line : paint(style, line)
    }),
  ])
  return [paint('bold', `--- ${names[0]}`), paint('bold', `+++ ${names[1]}`), ...lines, ''].join('\n')
}
