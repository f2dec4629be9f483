import { dirname, resolve } from 'node:path'
import type { Document } from 'yaml'
import { parseDocuments, yamlOptions } from '../api/yaml.ts'
import { parseMachine } from '../api/machine.ts'
import { isRecord } from '../api/schema.ts'
import type { Capabilities } from '../api/capabilities.ts'
import { completeIn } from './completion.ts'
import { disappointments, resultOf, type Expectation, type Result } from './expectation.ts'
import { Usage, exitCodes, type ExitCode } from './failure.ts'
import { filesOf, nameOf, readManifests, readText } from './input.ts'
import { junitReport, type Verdict } from './junit.ts'
import { write } from './output.ts'
import type { Paint } from './paint.ts'
import { inNamespace, inventoryOf, isPreset, presetsOf, type Manifest } from '../inventory/manifests.ts'
import { equalNodes } from '../completion/nodes.ts'
import { quarantineWarning } from './scope.ts'
import type { Streams } from './world.ts'

export interface TestSettings {
  readonly capabilities: Capabilities
  /** Writes what came out in place of what was expected. */
  readonly update: boolean
  readonly quiet: boolean
  readonly junit?: string
  readonly paint: Paint
}

const testNames = /\.vmtest\.ya?ml$/i
const noNames = /^$/
/** From which identities are drawn: the same in every run. */
const defaultUid = 'test'

/**
 * `kubectl vm test`: completes the VM of each test with its presets, nothing else, and compares. A line a test, and one for all.
 * @throws Usage where there is no test, or a file is none
 */
export async function testPresets(
  paths: readonly string[],
  settings: TestSettings,
  streams: Streams,
): Promise<ExitCode> {
  const verdicts: Verdict[] = []
  const files = (await Promise.all(paths.map(testFilesOf))).flat()
  for (const file of files) {
    const read = parseDocuments(await readText(file))
    if ('problem' in read) throw new Usage(`${file}:${read.problem}`)
    const documents = read.documents.filter(({ value }) => value !== null)
    let isChanged = false
    for (const [index, { document, value }] of documents.entries()) {
      const { verdict, result } = await runTest(file, index, value, settings)
      isChanged ||= settings.update && verdict.failures.length > 0
      if (settings.update && verdict.failures.length > 0) update(document, result)
      verdicts.push(settings.update ? { ...verdict, failures: [] } : verdict)
      tell(verdict, settings, streams)
    }
    if (isChanged) await write(file, documents.map(({ document }) => document.toString(yamlOptions)).join('---\n'))
  }
  const failed = verdicts.filter(({ failures }) => failures.length > 0).length
  streams.out(`${verdicts.length - failed} passed, ${failed} failed\n`)
  if (settings.junit !== undefined) await write(settings.junit, junitReport(verdicts))
  return failed > 0 ? exitCodes.refused : exitCodes.fine
}

async function testFilesOf(path: string): Promise<readonly string[]> {
  try {
    return await filesOf(path, testNames, noNames)
  } catch (error) {
    if (error instanceof Usage && error.cause === undefined) throw new Usage(`${path}: holds no test (*.vmtest.yaml)`)
    throw error
  }
}

function tell(
  { file, name, failures }: Verdict,
  { update: isUpdate, quiet, paint }: TestSettings,
  streams: Streams,
): void {
  if (failures.length === 0) {
    if (!quiet) streams.out(`${paint('green', 'ok')}    ${file}: ${name}\n`)
    return
  }
  const word = isUpdate ? paint('yellow', 'wrote') : paint('red', 'FAIL ')
  streams.out(`${word} ${file}: ${name}\n${failures.map((line) => `        ${line}\n`).join('')}`)
}

const testKeys = ['name', 'presets', 'vm', 'namespace', 'uid', 'expect']
const expectKeys = ['completed', 'exact', 'causes', 'warnings', 'presets']

async function runTest(
  file: string,
  index: number,
  test: unknown,
  { capabilities }: TestSettings,
): Promise<{ readonly verdict: Verdict; readonly result: Result }> {
  const startMs = performance.now()
  if (!isRecord(test)) throw new Usage(`${file}: a test is an object with presets, vm and expect`)
  checkKeys(file, test, testKeys)
  const namespace = namespaceOf(file, test['namespace'])
  const presets = await objectsOf(file, test['presets'] ?? [], 'presets')
  const [machine, ...others] = await objectsOf(file, test['vm'], 'vm')
  if (machine === undefined || others.length > 0) throw new Usage(`${file}: \`vm\` must be one VM`)
  const expected = expectationOf(file, test['expect'])
  const result = completedBy(machine, presets, namespace, capabilities, textOf(test['uid']) ?? defaultUid)
  const name = textOf(test['name']) ?? (index === 0 ? nameOf(machine) : `${nameOf(machine)} (${index + 1})`)
  const seconds = (performance.now() - startMs) / 1000
  return { verdict: { file, name, seconds, failures: disappointments(expected, result) }, result }
}

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)

function checkKeys(file: string, value: Manifest, known: readonly string[]): void {
  const unknown = Object.keys(value).find((key) => !known.includes(key))
  if (unknown !== undefined) throw new Usage(`${file}: \`${unknown}\` is not known; there are ${known.join(', ')}`)
}

function namespaceOf(
  file: string,
  value: unknown,
): { readonly name: string; readonly labels: { readonly [key: string]: string } } {
  const { name = 'default', labels = {} } = typeof value === 'string' ? { name: value } : isRecord(value) ? value : {}
  if (typeof name !== 'string' || !isRecord(labels))
    throw new Usage(`${file}: \`namespace\` is a name, or {name, labels}`)
  const texts = Object.entries(labels).map(([key, label]) => [key, String(label)])
  return { name, labels: { ...Object.fromEntries(texts), 'kubernetes.io/metadata.name': name } }
}

/** Objects as they stand, or by the paths of their files, which begin where the test is. */
async function objectsOf(file: string, value: unknown, key: string): Promise<readonly Manifest[]> {
  const all: readonly unknown[] = Array.isArray(value) ? value : [value]
  const objects = await Promise.all(
    all.map(async (one) => {
      if (typeof one === 'string') return readManifests([resolve(dirname(file), one)], nothing())
      if (isRecord(one)) return [one]
      throw new Usage(`${file}: \`${key}\` is an object, the path of a file, or a list of such`)
    }),
  )
  return objects.flat()
}

async function* nothing(): AsyncGenerator<never> {}

function expectationOf(file: string, value: unknown): Expectation {
  if (!isRecord(value)) throw new Usage(`${file}: \`expect\` is missing`)
  checkKeys(file, value, expectKeys)
  const { completed, exact, causes, warnings, presets } = value
  return {
    ...(completed === undefined ? {} : { completed }),
    exact: exact === true,
    ...(causes === undefined ? {} : { causes: listOf(file, causes, 'causes') }),
    ...(warnings === undefined ? {} : { warnings: listOf(file, warnings, 'warnings').map(String) }),
    ...(presets === undefined ? {} : { presets: listOf(file, presets, 'presets').map(String) }),
  }
}

function listOf(file: string, value: unknown, key: string): readonly unknown[] {
  if (Array.isArray(value)) return value
  throw new Usage(`${file}: \`expect.${key}\` must be a list`)
}

/** A broken preset takes no part, and is told as a warning. */
function completedBy(
  manifest: Manifest,
  presetManifests: readonly Manifest[],
  namespace: { readonly name: string; readonly labels: { readonly [key: string]: string } },
  capabilities: Capabilities,
  uid: string,
): Result {
  const presets = presetsOf(
    presetManifests.filter(isPreset).map((preset) => inNamespace(preset, namespace.name)),
    namespace.name,
  )
  const broken = [...presets.quarantined.values()].map(quarantineWarning)
  const parsed = parseMachine(manifest)
  if ('causes' in parsed) return { completed: undefined, causes: parsed.causes, warnings: broken, presets: [] }
  const { machine } = parsed
  const placed = { ...machine, metadata: { ...machine.metadata, namespace: namespace.name } }
  const inventory = inventoryOf(presets, { labels: namespace.labels, capabilities: equalNodes(capabilities) })
  const result = resultOf(completeIn(placed, namespace.name, { inventory }, { uid }))
  return { ...result, warnings: [...broken, ...result.warnings] }
}

/** Only what the test names is written; of a subset, the values of what it names. */
function update(document: Document, result: Result): void {
  const written: { readonly [key: string]: unknown } = {
    completed: result.completed,
    causes: result.causes.map(({ field, reason, message }) => ({ field, reason, message })),
    warnings: result.warnings,
    presets: result.presets,
  }
  const isRefused = result.completed === undefined
  for (const key of ['completed', 'causes', 'warnings', 'presets']) {
    const path = ['expect', key]
    const isNamed = document.hasIn(path)
    if (key === 'completed' && isRefused) document.deleteIn(path)
    else if (key === 'causes' && isNamed && !isRefused) document.deleteIn(path)
    else if (isNamed || (key === 'causes' && isRefused)) {
      const value = written[key]
      const isSubset = key === 'completed' && document.getIn(['expect', 'exact']) !== true
      const before: unknown = isSubset ? document.toJS().expect?.completed : undefined
      document.setIn(path, document.createNode(isSubset ? narrowed(before, value) : value))
    }
  }
}

/** What stands in `value` where `shape` has something; what is a list is taken whole. */
function narrowed(shape: unknown, value: unknown): unknown {
  if (!isRecord(shape) || !isRecord(value)) return value
  const members = Object.entries(shape).flatMap(([key, member]) =>
    Object.hasOwn(value, key) ? [[key, narrowed(member, value[key])] as const] : [],
  )
  return Object.fromEntries(members)
}
