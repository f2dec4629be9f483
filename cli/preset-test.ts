import { dirname, resolve } from 'node:path'
import type { Document } from 'yaml'
import { parseDocuments, yamlOptions } from '../api/yaml.ts'
import { parseVirtualMachine } from '../api/virtual-machine.ts'
import { isRecord } from '../api/schema.ts'
import type { Capabilities } from '../api/capabilities.ts'
import { completeIn } from './completion.ts'
import { mismatches, resultOf, type Expectation, type Result } from './expectation.ts'
import { Usage, exitCodes, type ExitCode } from './failure.ts'
import { filesOf, nameOf, readManifests, readText, testNames } from './input.ts'
import type { KindSource } from './object-kinds.ts'
import { junitReport, type TestResult } from './junit.ts'
import { write } from './output.ts'
import type { Paint } from './paint.ts'
import { inNamespace, inventoryOf, isPreset, presetsOf, type Manifest } from '../inventory/manifests.ts'
import { equalNodes } from '../completion/nodes.ts'
import { quarantineWarning } from './scope.ts'
import type { Streams } from './world.ts'

export interface TestSettings {
  readonly capabilities: Capabilities
  /** The kinds of objects, for tests that name no schema. */
  readonly kinds: KindSource
  /** Replaces the expectations with the actual results. */
  readonly update: boolean
  readonly quiet: boolean
  readonly junit?: string
  readonly paint: Paint
}

const noNames = /^$/
/** Makes the derived identities the same in every run. */
const defaultUid = 'test'

/**
 * `kubectl vm test`: completes the VM or object of each test with only its presets and compares the result. Prints one
 * line per test and a summary.
 * @throws Usage if there is no test or a test is malformed
 */
export async function testPresets(
  paths: readonly string[],
  settings: TestSettings,
  streams: Streams,
): Promise<ExitCode> {
  const results: TestResult[] = []
  const files = (await Promise.all(paths.map(testFilesOf))).flat()
  for (const file of files) {
    const read = parseDocuments(await readText(file))
    if ('problem' in read) throw new Usage(`${file}:${read.problem}`)
    const documents = read.documents.filter(({ value }) => value !== null)
    let isChanged = false
    for (const [index, { document, value }] of documents.entries()) {
      const { test, actual } = await runTest(file, index, value, settings)
      isChanged ||= settings.update && test.failures.length > 0
      if (settings.update && test.failures.length > 0) update(document, actual)
      results.push(settings.update ? { ...test, failures: [] } : test)
      print(test, settings, streams)
    }
    if (isChanged) await write(file, documents.map(({ document }) => document.toString(yamlOptions)).join('---\n'))
  }
  const failed = results.filter(({ failures }) => failures.length > 0).length
  streams.out(`${results.length - failed} passed, ${failed} failed\n`)
  if (settings.junit !== undefined) await write(settings.junit, junitReport(results))
  return failed > 0 ? exitCodes.refused : exitCodes.fine
}

async function testFilesOf(path: string): Promise<readonly string[]> {
  try {
    return await filesOf(path, testNames, noNames)
  } catch (error) {
    if (error instanceof Usage && error.cause === undefined)
      throw new Usage(`${path}: has no test (*.vmtest.yaml, *.presettest.yaml)`)
    throw error
  }
}

function print(
  { file, name, failures }: TestResult,
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

const testKeys = ['name', 'presets', 'vm', 'object', 'schema', 'namespace', 'uid', 'expect']
const expectKeys = ['completed', 'exact', 'causes', 'warnings', 'presets']

async function runTest(
  file: string,
  index: number,
  test: unknown,
  settings: TestSettings,
): Promise<{ readonly test: TestResult; readonly actual: Result }> {
  const startMs = performance.now()
  if (!isRecord(test)) throw new Usage(`${file}: a test must be an object with presets, expect, and vm or object`)
  checkKeys(file, test, testKeys)
  const namespace = namespaceOf(file, test['namespace'])
  const presets = await objectsOf(file, test['presets'] ?? [], 'presets')
  const key = test['object'] === undefined ? 'vm' : 'object'
  const [object, ...others] = await objectsOf(file, test[key], key)
  if (object === undefined || others.length > 0)
    throw new Usage(`${file}: \`${key}\` must be one ${key === 'vm' ? 'VM' : 'object'}`)
  const expected = expectationOf(file, test['expect'])
  const actual =
    key === 'vm'
      ? completedBy(object, presets, namespace, settings.capabilities, textOf(test['uid']) ?? defaultUid)
      : await objectCompletedBy(object, presets, namespace, await kindsOf(file, test['schema'], settings))
  const name = textOf(test['name']) ?? (index === 0 ? nameOf(object) : `${nameOf(object)} (${index + 1})`)
  const seconds = (performance.now() - startMs) / 1000
  return { test: { file, name, seconds, failures: mismatches(expected, actual) }, actual }
}

/** The kinds of the schemas that a test names, whose paths are relative to the test's, or those of the command line. */
async function kindsOf(file: string, value: unknown, { kinds }: TestSettings): Promise<KindSource> {
  if (value === undefined) return kinds
  const { kindsOfFiles, readKinds } = await import('./object-kinds.ts')
  const paths: readonly unknown[] = Array.isArray(value) ? value : [value]
  return kindsOfFiles(
    await readKinds(
      paths.map((path) => {
        if (typeof path === 'string') return resolve(dirname(file), path)
        throw new Usage(`${file}: \`schema\` must be the path of a file or directory, or a list of these`)
      }),
    ),
  )
}

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)

function checkKeys(file: string, value: Manifest, known: readonly string[]): void {
  const unknown = Object.keys(value).find((key) => !known.includes(key))
  if (unknown !== undefined) throw new Usage(`${file}: unknown key \`${unknown}\`; must be one of ${known.join(', ')}`)
}

function namespaceOf(
  file: string,
  value: unknown,
): { readonly name: string; readonly labels: { readonly [key: string]: string } } {
  const { name = 'default', labels = {} } = typeof value === 'string' ? { name: value } : isRecord(value) ? value : {}
  if (typeof name !== 'string' || !isRecord(labels))
    throw new Usage(`${file}: \`namespace\` must be a name or {name, labels}`)
  const texts = Object.entries(labels).map(([key, label]) => [key, String(label)])
  return { name, labels: { ...Object.fromEntries(texts), 'kubernetes.io/metadata.name': name } }
}

/** Given objects, or the objects of files, whose paths are relative to the test's. */
async function objectsOf(file: string, value: unknown, key: string): Promise<readonly Manifest[]> {
  const all: readonly unknown[] = Array.isArray(value) ? value : [value]
  const objects = await Promise.all(
    all.map(async (one) => {
      if (typeof one === 'string') return readManifests([resolve(dirname(file), one)], nothing())
      if (isRecord(one)) return [one]
      throw new Usage(`${file}: \`${key}\` must be an object, the path of a file, or a list of these`)
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

/** A broken preset is not applied; it causes a warning. */
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
  const parsed = parseVirtualMachine(manifest)
  if ('causes' in parsed) return { completed: undefined, causes: parsed.causes, warnings: broken, presets: [] }
  const { vm } = parsed
  const placed = { ...vm, metadata: { ...vm.metadata, namespace: namespace.name } }
  const inventory = inventoryOf(presets, { labels: namespace.labels, capabilities: equalNodes(capabilities) })
  const result = resultOf(completeIn(placed, namespace.name, { inventory }, { uid }))
  return { ...result, warnings: [...broken, ...result.warnings] }
}

/** As `completedBy`, for an object of another kind. */
async function objectCompletedBy(
  manifest: Manifest,
  presets: readonly Manifest[],
  namespace: { readonly name: string; readonly labels: { readonly [key: string]: string } },
  kinds: KindSource,
): Promise<Result> {
  const [{ completeObject, placeObject }, { scopesOfFiles }] = await Promise.all([
    import('./objects.ts'),
    import('./object-scope.ts'),
  ])
  const broken: string[] = []
  const scopes = scopesOfFiles(kinds, {
    manifests: presets,
    namespace: namespace.name,
    namespaceLabels: namespace.labels,
    onBroken: (preset) => broken.push(quarantineWarning(preset)),
  })
  const placed = await placeObject(manifest, scopes, namespace.name)
  if ('causes' in placed) return { completed: undefined, causes: placed.causes, warnings: broken, presets: [] }
  const { outcome, object, causes, warnings, participants } = completeObject(placed)
  return {
    completed: outcome === 'completed' ? object : undefined,
    causes,
    warnings: [...broken, ...warnings],
    presets: participants.map(({ preset }) => preset.id).toSorted(),
  }
}

/** Updates only members that the test expects, and for a subset only its values. */
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

/** The members of `value` that `shape` has; lists are copied as a whole. */
function narrowed(shape: unknown, value: unknown): unknown {
  if (!isRecord(shape) || !isRecord(value)) return value
  const members = Object.entries(shape).flatMap(([key, member]) =>
    Object.hasOwn(value, key) ? [[key, narrowed(member, value[key])] as const] : [],
  )
  return Object.fromEntries(members)
}
