import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import type { Mutant } from './mutants.ts'

const root = resolve(import.meta.dirname, '../..')

/** The mutants that the type checker accepts: the others only remove a check that types require. */
export function compiling(mutants: readonly Mutant[]): readonly Mutant[] {
  const replaced = mutants.filter(({ change }) => change === 'true' || change === 'false')
  const copies = new Map(replaced.map((mutant, index) => [copyOf(mutant, index), mutant] as const))
  const project = join(root, 'tsconfig.mutation.json')
  try {
    for (const [copy, { file, start, end, change }] of copies) {
      const source = readFileSync(file, 'utf8')
      writeFileSync(copy, source.slice(0, start) + change + source.slice(end))
    }
    const compilerOptions = { noUnusedLocals: false, noUnusedParameters: false }
    writeFileSync(project, JSON.stringify({ extends: './tsconfig.json', compilerOptions, files: [...copies.keys()] }))
    const { stdout } = spawnSync('tsc', ['--pretty', 'false', '-p', project], { encoding: 'utf8', cwd: root })
    const refused = new Set(stdout.split('\n').map((line) => resolve(root, line.replace(/\(.*/, ''))))
    const invalid = new Set([...copies].filter(([copy]) => refused.has(copy)).map(([, mutant]) => mutant))
    return mutants.filter((mutant) => !invalid.has(mutant))
  } finally {
    for (const path of [project, ...copies.keys()]) rmSync(path, { force: true })
  }
}

const copyOf = ({ file }: Mutant, index: number): string =>
  resolve(dirname(file), `${basename(file, '.ts')}.mutant-${index}.ts`)
