import { orders } from '../../api/domain/order.ts'

/**
 * Items of a list that are wanted, in the order in which libvirt keeps them, each with its place in the list as it is
 * stored.
 */
export const inLibvirtOrder = <T>(
  path: string,
  items: readonly T[],
  isWanted: (item: T) => boolean = () => true,
): readonly { readonly item: T; readonly index: number }[] => {
  if (!items.some(isWanted)) return []
  const places = new Map(items.map((item, index) => [item, index]))
  const sort = orders[path]
  // What sorts gives back the same items.
  const sorted = sort && items.length > 1 ? (sort(items) as T[]) : items
  return sorted.filter(isWanted).map((item) => ({ item, index: places.get(item) ?? -1 }))
}
