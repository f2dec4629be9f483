import { existsSync, globSync, readFileSync } from 'node:fs'
import { resolve, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { createVitest, type Reporter, type TestSpecification } from 'vitest/node'
import { compiling } from './compile.ts'
import { instrument, type Mutant } from './mutants.ts'

const usage = `usage: npm run mutation -- [--threshold PERCENT] FOLDER [FILE...]

Changes the code of FOLDER in one place at a time and runs the tests of FOLDER that reach the place. With FILEs: changes those,
and runs the tests beside them and the tests (*.test.ts) among FILEs. Prints the changes that neither tests nor types notice; fails if they are more than PERCENT (5) of all.`

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { threshold: { type: 'string', default: '5' }, help: { type: 'boolean', default: false } },
})
const [folder, ...named] = positionals
if (folder === undefined || values.help) {
  process.stdout.write(`${usage}\n`)
  process.exit(values.help ? 0 : 2)
}

const isTest = (file: string): boolean => file.endsWith('.test.ts')
const besides = (file: string): string => file.replace(/\.ts$/, '.test.ts')
const chosen = named.filter((file) => !isTest(file))
const mutants: Mutant[] = []
const instrumented = new Map<string, string>()
const ranges: Record<string, readonly [number, number]> = {}
const files = (chosen.length > 0 ? chosen : globSync(`${folder}/**/*.ts`, { exclude: ['**/*.test.ts'] })).toSorted()
for (const file of files) {
  const made = instrument(file, readFileSync(file, 'utf8'), mutants.length)
  instrumented.set(resolve(file), made.code)
  ranges[besides(resolve(file))] = [mutants.length, mutants.length + made.mutants.length]
  mutants.push(...made.mutants)
}

const loaded = new Set<number>()
const reached = new Set<number>()
const killed = new Set<number>()
/** The tests that were not used, by name and reason. */
const unused = new Map<string, 'slow' | 'not repeatable'>()
let failed = 0

const progress: Reporter = {
  onTestCaseResult(test) {
    const meta = test.meta()
    if (test.result().state === 'failed') {
      failed += 1
      process.stdout.write(`\nfails without a mutant: ${test.fullName}\n${test.result().errors?.[0]?.stack ?? ''}\n`)
    }
    if (meta.notMutated !== undefined) unused.set(`${test.module.moduleId} ${test.fullName}`, meta.notMutated)
    for (const one of meta.mutants?.loaded ?? []) loaded.add(one)
    for (const one of meta.mutants?.reached ?? []) reached.add(one)
    for (const one of meta.mutants?.killed ?? []) killed.add(one)
  },
  onTestModuleEnd(module) {
    for (const { stack, message } of module.errors()) {
      failed += 1
      process.stdout.write(`\n${module.relativeModuleId} does not load: ${stack ?? message}\n`)
    }
    process.stdout.write(`\r\x1b[K${killed.size} of ${mutants.length} mutants noticed; ${module.relativeModuleId}`)
  },
}

/** The tests that are named, then those beside the files. */
const tests = [...new Set([...named.filter(isTest).map((file) => resolve(file)), ...Object.keys(ranges)])]
const rank = ({ moduleId }: TestSpecification): number => {
  const index = tests.indexOf(moduleId)
  return index < 0 ? tests.length : index
}

/** Runs tests, each with the mutants in its range that are still alive. */
async function run(include: readonly string[], provided: typeof ranges): Promise<void> {
  const vitest = await createVitest(
    'test',
    {
      // The projects of vitest.config.ts would not use this plugin and runner.
      config: false,
      include: [...include],
      setupFiles: ['test/seed.ts'],
      provide: { killedBefore: [...killed], ranges: provided },
      expect: { requireAssertions: true },
      isolate: false,
      // The cache's key is the source, without its mutants.
      fsModuleCache: false,
      watch: false,
      runner: resolve(import.meta.dirname, 'runner.ts'),
      reporters: [progress],
      maxWorkers: 1,
      fileParallelism: false,
      testTimeout: 3_600_000,
      hookTimeout: 3_600_000,
      dangerouslyIgnoreUnhandledErrors: true,
      sequence: {
        sequencer: class {
          shard = (specifications: TestSpecification[]): TestSpecification[] => specifications
          sort = (specifications: TestSpecification[]): TestSpecification[] =>
            specifications.toSorted((one, other) => rank(one) - rank(other))
        },
      },
    },
    {
      plugins: [{ name: 'mutants', enforce: 'pre', transform: (_, id) => instrumented.get(id.replace(/\?.*$/, '')) }],
    },
  )
  await vitest.start()
  await vitest.close()
}

const existing = tests.filter((path) => existsSync(path))
if (chosen.length > 0) {
  await run(existing, {})
} else {
  // First each test with the file beside it: most mutants do not need the tests of other files, which are many.
  await run(existing, ranges)
  await run([`${folder}/**/*.test.ts`], {})
}

const isData = (mutant: number): boolean => loaded.has(mutant) && !reached.has(mutant)
const counted = mutants.filter((_, mutant) => !isData(mutant))
const survivors = compiling(mutants.filter((_, mutant) => !isData(mutant) && !killed.has(mutant)))
process.stdout.write('\r\x1b[K')
for (const { file, line, change, code } of survivors)
  process.stdout.write(
    `${relative('.', file)}:${line}: ${change}: ${code.length > 100 ? `${code.slice(0, 99)}…` : code}\n`,
  )
for (const file of files) {
  const all = counted.filter((one) => one.file === file).length
  const left = survivors.filter((one) => one.file === file).length
  if (left > 0) process.stdout.write(`${file}: ${left} of ${all} survive\n`)
}
const count = (reason: string): number => [...unused.values()].filter((one) => one === reason).length
const statements = survivors.filter(({ change }) => change === 'without').length
const percent = (100 * survivors.length) / Math.max(1, counted.length)
process.stdout.write(
  `${folder}: ${survivors.length} of ${counted.length} mutants survive (${percent.toFixed(1)} %), ${statements} of them statements; ` +
    `not used: ${count('slow')} slow and ${count('not repeatable')} not repeatable tests\n`,
)
process.exit(failed > 0 ? 2 : percent > Number(values.threshold) ? 1 : 0)
