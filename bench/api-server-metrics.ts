/** Sum in milliseconds and count of a histogram whose labels include all of `labels`. */
export function histogram(metrics: string, name: string, labels: readonly string[]): { sumMs: number; count: number } {
  const total = (suffix: string) =>
    metrics
      .split('\n')
      .filter((line) => line.startsWith(`${name}_${suffix}{`) && labels.every((label) => line.includes(label)))
      .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
  return { sumMs: total('sum') * 1000, count: total('count') }
}
