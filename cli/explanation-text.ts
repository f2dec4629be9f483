import { inOneLine } from '../api/refusal.ts'
import { shorten } from '../api/shorten.ts'
import type { Considered } from './considered.ts'
import type { Explanation, Field } from './explanation.ts'
import type { Paint } from './paint.ts'
import { creditText } from './provenance.ts'

/** The provenance of a stored object is text that the cluster has kept. */
const line = (text: string): string => `${inOneLine(text)}\n`

export function explanationText(explanation: Explanation, paint: Paint, columns: number): string {
  const { presets, fields, removed, skipped, warnings, left } = explanation
  const pathWidth = Math.min(Math.max(0, ...fields.map(({ path }) => path.length)), Math.max(40, columns - 40))
  const lines = [
    line(paint('bold', 'vm' in explanation ? `VirtualMachine ${explanation.vm}` : explanation.object)),
    '\n',
    ...presetLines(presets, paint),
    `\n${paint('bold', 'Fields')}\n`,
    ...fields.flatMap((field) => fieldLines(field, pathWidth, paint)),
    ...section('Removed', removed, paint, ({ path, ...credit }) => `${path}  by ${creditText(credit)}`),
    ...section(
      'Skipped',
      skipped,
      paint,
      ({ path, reason, ...credit }) => `${path}  from ${creditText(credit)}: ${reason}`,
    ),
    ...section('Warnings', warnings, paint, (text) => text),
    ...(left === undefined ? [] : [`\n${left} more fields did not fit in the provenance\n`]),
  ]
  return lines.join('')
}

export function presetLines(presets: readonly Considered[], paint: Paint): string[] {
  if (presets.length === 0) return ['No preset in scope.\n']
  const widths = [0, 0].map((_, at) =>
    Math.max(...presets.map(({ preset, layer }) => [preset, layer][at]?.length ?? 0)),
  )
  const isApplied = ({ outcome }: Considered): boolean => outcome === 'applied'
  return [
    `${paint('bold', 'Presets, strongest first')}\n`,
    ...presets.map((one) => {
      const { preset, layer, priority, outcome, why } = one
      const outcomeText = isApplied(one) ? paint('green', outcome) : paint('dim', outcome)
      const head = `  ${preset.padEnd(widths[0] ?? 0)}  ${layer.padEnd(widths[1] ?? 0)}  ${String(priority).padStart(4)}`
      return line(`${head}  ${outcomeText}${why === undefined ? '' : `: ${why}`}`)
    }),
  ]
}

const valueWidth = 40

function fieldLines({ path, value, overridden = [], ...credit }: Field, width: number, paint: Paint): string[] {
  const text = shorten(JSON.stringify(value), valueWidth)
  const by = creditText(credit)
  return [
    line(`  ${path.padEnd(width)}  ${text.padEnd(12)}  ${credit.user === true ? by : paint('cyan', by)}`),
    ...overridden.map((lost) => {
      const other = lost.value === undefined ? '' : ` set ${shorten(JSON.stringify(lost.value), valueWidth)}`
      return paint('dim', line(`  ${' '.repeat(Math.min(width, 8))}${creditText(lost)}${other}: ${lost.why}`))
    }),
  ]
}

const section = <T>(title: string, items: readonly T[], paint: Paint, text: (item: T) => string): string[] =>
  items.length === 0 ? [] : [`\n${paint('bold', title)}\n`, ...items.map((item) => line(`  ${text(item)}`))]
