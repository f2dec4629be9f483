import { inOneLine } from '../api/refusal.ts'
import { shownLine } from '../runtime/shown-text.ts'

/**
 * An error for standard error, in one line: file names, and names and keys in manifests, can have line ends, and CI
 * systems read commands from the lines that a program prints.
 */
export const errorLine = (text: string): string => `error: ${inOneLine(text)}\n`

/** Likewise a warning. */
export const warningLine = (text: string): string => `Warning: ${inOneLine(text)}\n`

/** Likewise a line with text of the cluster, whose messages can be lists. */
export const clusterLine = (text: string): string => `${shownLine(text)}\n`
