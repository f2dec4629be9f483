import type { ASTNode } from '@marcbachmann/cel-js'
import { partsOf } from './condition-tree.ts'

/**
 * Puts `dyn()` around everything that becomes a member of a list, map or optional value. The library keeps a type for
 * each form that it has ever checked (`list<map<string, list<int>>>`) as long as the process lives; of lists and maps
 * of `dyn` there are few.
 * @param ast is changed; no one else may hold it
 * @param makeDyn a new tree of any call of `dyn`
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

/** Methods whose last argument becomes a member of what they return. */
const wrapping: ReadonlySet<string> = new Set(['map', 'of'])
