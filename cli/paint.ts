import { styleText } from 'node:util'
import type { World } from './world.ts'

export const styles = ['red', 'green', 'yellow', 'cyan', 'bold', 'dim'] as const
export type Style = (typeof styles)[number]
export type Paint = (style: Style, text: string) => string

export const plain: Paint = (_, text) => text

/** Colors only on a terminal, and not with --no-color or NO_COLOR (https://no-color.org). */
export function painter(world: Pick<World, 'environment' | 'isOutTerminal'>, isEnabled = true): Paint {
  const { NO_COLOR: noColor, TERM: terminal } = world.environment
  const isColored = isEnabled && world.isOutTerminal && (noColor ?? '') === '' && terminal !== 'dumb'
  return isColored ? (style, text) => styleText(style, text, { validateStream: false }) : plain
}
