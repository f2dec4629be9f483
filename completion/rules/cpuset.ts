import { canonicalCpuset } from '../../api/domain/cpuset.ts'

/** Sets that name more are told by their bounds elsewhere. */
const maxNumbers = 4096

/** The numbers of a set such as `0-3,^2,8`, ascending. */
export const numbersOf = (text: string | undefined): readonly number[] => {
  if (text === undefined || text === '') return []
  const numbers: number[] = []
  for (const part of canonicalCpuset(text).split(',')) {
    const [first, last = first] = part.split('-').map(Number)
    if (first === undefined || last === undefined || Number.isNaN(first) || Number.isNaN(last)) return []
    for (let number = first; number <= last && numbers.length < maxNumbers; number += 1) numbers.push(number)
  }
  return numbers
}
