import { Script } from 'node:vm'

/** The code in the stand-alone executable: CommonJS chunks by name, each with V8's code cache if it has one. */
export interface Chunks {
  readonly source: (name: string) => string
  readonly cache: (name: string) => Buffer | undefined
}

/**
 * Runs a chunk, and each chunk that it requires once, when first required. Returns the compiled scripts by name. Node's
 * own loader needs files, which an executable does not have, and uses no code cache for the code that it compiles.
 */
export function runChunks(name: string, { source, cache }: Chunks): ReadonlyMap<string, Script> {
  const scripts = new Map<string, Script>()
  const loaded = new Map<string, { exports: unknown }>()
  const load = (chunk: string): unknown => {
    const known = loaded.get(chunk)
    if (known !== undefined) return known.exports
    const module = { exports: {} }
    loaded.set(chunk, module)
    const cachedData = cache(chunk)
    const script = new Script(`(function (exports, require, module) {${source(chunk)}\n})`, {
      filename: chunk,
      ...(cachedData === undefined ? {} : { cachedData }),
    })
    scripts.set(chunk, script)
    script.runInThisContext()(module.exports, require, module)
    return module.exports
  }
  const require = (of: string): unknown => {
    if (of.startsWith('./')) return load(of.slice(2))
    const builtin = process.getBuiltinModule(of)
    if (builtin === undefined)
      throw Object.assign(new Error(`Cannot find module '${of}'`), { code: 'MODULE_NOT_FOUND' })
    return builtin
  }
  load(name)
  return scripts
}
