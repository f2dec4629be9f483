import type { ASTNode } from '@marcbachmann/cel-js'
import { partsOf } from './condition-tree.ts'

/**
 * Wraps each member of a list, map or optional value in `dyn()`. The library caches each type that it has ever checked
 * (`list<map<string, list<int>>>`) for the lifetime of the process; with members of type `dyn` there are few.
 * @param ast is modified; the caller must be its only owner
 * @param makeDyn returns a new tree of any call of `dyn`
 */
export function flattenTypes(ast: ASTNode, makeDyn: () => ASTNode): ASTNode {
  const dyn = (part: ASTNode): ASTNode =>
    part.op === 'value' ? part : Object.assign(makeDyn(), { args: ['dyn', [part]] })
  for (const part of partsOf(ast)) flattenTypes(part, makeDyn)
  if (ast.op === 'list') Object.assign(ast, { args: ast.args.map(dyn) })
  if (ast.op === 'map') Object.assign(ast, { args: ast.args.map((entry) => entry.map(dyn)) })
  if (ast.op === 'rcall' && wrapping.has(ast.args[0])) {
    const [name, of, args] = ast.args
    Object.assign(ast, { args: [name, of, [...args.slice(0, -1), ...args.slice(-1).map(dyn)]] })
  }
  return ast
}

/** Methods whose last argument becomes a member of their result. */
const wrapping: ReadonlySet<string> = new Set(['map', 'of'])
