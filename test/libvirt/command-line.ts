/** The words of a command line that libvirt printed: separated by blanks, quoted as for a shell. */
export function commandLine(text: string): string[] {
  const words: string[] = []
  let word: string | undefined
  for (const [part, single, double, escaped, blank] of text.matchAll(
    /'([^']*)'|"((?:[^"\\]|\\.)*)"|\\([\s\S])|(\s+)|[^\s'"\\]+/g,
  )) {
    if (blank === undefined) word = (word ?? '') + (single ?? double?.replaceAll(/\\(.)/g, '$1') ?? escaped ?? part)
    if (blank === undefined || word === undefined) continue
    words.push(word)
    word = undefined
  }
  return word === undefined ? words : [...words, word]
}

/** A command line without its values: the names of variables, options, and the keys in the values of options. */
export function structureOf(words: readonly string[]): string[] {
  const program = programIn(words)
  return words.map((word, index) => {
    if (index < program) return word.slice(0, word.indexOf('=') + 1)
    return words[index - 1] === '-append' ? 'one argument' : keysOf(word)
  })
}

function keysOf(word: string): string {
  if (word.startsWith('{')) {
    return JSON.stringify(JSON.parse(word), (_, value: unknown) => (typeof value === 'string' ? '' : value))
  }
  if (/^-[A-Za-z]/.test(word)) return word
  // A comma within a value is doubled.
  return word
    .replaceAll(',,', '')
    .split(',')
    .map((part) => part.slice(0, part.indexOf('=') + 1))
    .join(',')
}

/** It follows the variables of the environment. */
const programIn = (words: readonly string[]): number => words.findIndex((word) => word.startsWith('/'))

/** The paths below `directory` in the options of a command line. */
export const pathsIn = (words: readonly string[], directory: string): string[] =>
  words
    .slice(programIn(words))
    .flatMap(valuesOf)
    .filter((value) => value.startsWith(directory))

const valuesOf = (word: string): string[] =>
  word.startsWith('{')
    ? stringsIn(JSON.parse(word))
    : word
        .replaceAll(',,', '')
        .split(',')
        .map((part) => part.slice(part.indexOf('=') + 1))

const stringsIn = (value: unknown): string[] => {
  if (typeof value === 'string') return [value]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(stringsIn) : []
}
