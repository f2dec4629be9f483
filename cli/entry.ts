import type { Argument, Option } from 'commander'
import type { ExitCode } from './failure.ts'
import type { Flag, Flags } from './flags.ts'
import type { World } from './world.ts'

/** A command of `kubectl vm`. */
export interface Entry {
  readonly name: string
  readonly description: string
  /** Example arguments after `kubectl vm NAME`, and the exit code if it is not 0. */
  readonly example: string
  readonly exits?: { readonly code: ExitCode; readonly when: string }
  readonly words: readonly Argument[]
  readonly flags: readonly (Flag | Option)[]
  /** Whether it changes objects of the cluster: it goes on when nobody reads its output. */
  readonly writes?: true
  /** Resolves with the exit code. @param flags exactly those of the entry; commander checks users' flags against it */
  run(words: readonly string[], flags: Flags, world: World): Promise<number>
}
