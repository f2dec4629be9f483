import fc from 'fast-check'

const { value } = fc.letrec<{ value: string }>((tie) => {
  const value = tie('value')
  const apply = (template: string) =>
    fc
      .tuple(value, value, value)
      .map(([a, b, c]) => template.replaceAll('$a', a).replaceAll('$b', b).replaceAll('$c', c))
  const operators = ['+', '-', '*', '/', '%', '==', '!=', '<', '>=', 'in', '&&', '||']
  const templates = operators
    .map((operator) => `($a ${operator} $b)`)
    .concat('(!$a)', '(-$a)', '($a ? $b : $c)', '[$a, $b]', '{"k": $a, "l": $b}', '$a[$b]', '$a[?$b]', '$a.k', '$a.?k')
    .concat('$a.all(x, $b)', '$a.exists(y, $b)', '$a.exists_one(x, $b)', '$a.map(y, $b)', '$a.filter(x, $b)')
    .concat('$a.map(x, $b, $c)', 'cel.bind(x, $a, $b)', 'cel.bind(y, $a, $b)')
    .concat('optional.of($a).orValue($b)', '$a.or($b)', '$a.orValue($b)', 'size($a)', 'string($a)', 'int($a)')
    .concat('type($a)', 'dyn($a)', '$a.startsWith($b)', '$a.contains($b)', '$a.split($b)', '$a.join($b)')
    .concat('$a.lowerAscii()', '$a.indexOf($b)', '$a.substring($b)', 'quantity($a)')
  return {
    value: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      fc.constantFrom(
        '1',
        '2.0',
        '3u',
        '"a"',
        '"vda"',
        'true',
        'null',
        '[]',
        'x',
        'y',
        'object',
        'object.spec.domain.devices.disks',
        'object.spec.domain.devices.disks[0]',
      ),
      fc.constantFrom('object.metadata.name', 'object.metadata.labels', 'request.userInfo.groups', 'object.gone'),
      ...templates.map(apply),
    ),
  }
})

/** An expression of any type; the types of `x` and `y` are not known statically, like those of a VM's fields. */
export const anyExpression: fc.Arbitrary<string> = value.map(
  (expression) => `cel.bind(x, dyn("b"), cel.bind(y, dyn([1]), dyn(${expression})))`,
)
