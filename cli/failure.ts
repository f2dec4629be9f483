/** The caller's mistake: a file that cannot be read, a flag that means nothing. One sentence, exit code 2. */
export class Usage extends Error {
  override name = 'Usage'
}

export const exitCodes = { fine: 0, refused: 1, usage: 2, warnings: 3 } as const
