import { styleText } from 'node:util'
import type { World } from './world.ts'

export type Style = 'red' | 'green' | 'yellow' | 'cyan' | 'bold' | 'dim'
export type Paint = (style: Style, text: string) => string

export const plain: Paint = (_, text) => text

/** Colours only on a terminal, and not for who asks for none (https://no-color.org). */
export function painter(world: Pick<World, 'environment' | 'isOutTerminal'>, wantsColor = true): Paint {
  const { NO_COLOR: noColor, TERM: terminal } = world.environment
  const isColored = wantsColor && world.isOutTerminal && (noColor ?? '') === '' && terminal !== 'dumb'
  return isColored ? (style, text) => styleText(style, text, { validateStream: false }) : plain
}
