import { inspect } from 'node:util'
import type { World } from './world.ts'

export type Style = 'red' | 'green' | 'yellow' | 'cyan' | 'bold' | 'dim'
export type Paint = (style: Style, text: string) => string

export const plain: Paint = (_, text) => text

/** Colors only on a terminal, and not with --no-color or NO_COLOR (https://no-color.org). */
export function painter(
  { environment, isOutTerminal, escape }: Pick<World, 'environment' | 'isOutTerminal' | 'escape'>,
  isEnabled = true,
): Paint {
  const { NO_COLOR: noColor, TERM: terminal } = environment
  const isColored = isEnabled && isOutTerminal && (noColor ?? '') === '' && terminal !== 'dumb'
  if (!isColored) return plain
  return (style, text) => {
    const [begin, end] = inspect.colors[style] ?? []
    return `${escape}[${begin}m${text}${escape}[${end}m`
  }
}
